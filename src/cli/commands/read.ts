import type { Env } from '../../core/env.ts';
import { visibleLine } from '../../core/gate.ts';
import type { Context } from '../context.ts';
import { bringHere, openId } from '../find.ts';
import { forgetDaily } from '../retention.ts';
import { gist, headline, whole } from '../words.ts';
import { command } from '../../core/command.ts';
import { countFrom, durationFrom } from '../../core/time.ts';
import { byCommand, takeAndPrint } from '../../delivery/print.ts';
import type { PrintedMail } from '../../delivery/print.ts';
import { awaitMail } from '../../delivery/await-mail.ts';
import { watchMail } from '../../delivery/watch-mail.ts';
import { asOwed, claimedBy } from '../../core/obligations/owed.ts';
import { findWaiting } from '../../core/mail/deliver.ts';
import type { Delivered, Selection } from '../../core/mail/deliver.ts';
import { mailboxesOf, takeShared, waitingMail } from '../../core/mail/shared.ts';
import type { ReadMailbox } from '../../core/mail/shared.ts';
import { release, settle } from '../../core/mail/settle.ts';
import { findMessage, onlyOne } from '../../core/mail/workspace.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { writeAll } from '../../platform/terminal.ts';
import type { Message } from '../../core/message.ts';
import { shortId } from '../../core/names.ts';
import { Disposition } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import { PartlyShown } from '../../core/disk.ts';

const inboxCommand = command({
  usage: 'inbox',
  about:
    'Lists everything that waits for you, oldest first, with scoped mail for other repositories. It takes nothing.',
  options: {
    brief: { type: 'boolean', help: 'one line per message' },
    match: { type: 'string', value: 'context', help: 'only what a session in this repository would take' },
    loud: { type: 'boolean', help: 'leave out quiet mail' },
  },
  examples: ['parley inbox', 'parley inbox --match "$(git remote get-url origin)" --json'],
  async run(context: Context, values) {
    const who = await context.who('read');
    const match = values.match;
    const selection = { match, any: match === undefined, loudOnly: values.loud ?? false };
    const known = await who.home.journal.open(who.name);
    const claimed = await claimedBy(who);
    const rows: (PrintedMail & { quiet: boolean })[] = [];
    for (const box of mailboxesOf(who)) {
      const open = box.taker === undefined ? known : await who.home.journal.open(box.who.name);
      for (const { message, quiet } of await waitingMail(box, selection)) {
        const attention = open.get(message.id)?.attention;
        rows.push({ message, quiet, attention: attention && asOwed(attention, claimed.has(message.id)) });
      }
    }
    if (context.json) {
      context.sayJson(rows.map(({ message, quiet, attention }) => ({ ...message, quiet, attention })));
      return forgetDaily(context, who.home);
    }
    const held = [...known.values()].filter((copy) => copy.state === 'held').length;
    if (rows.length === 0) context.say('inbox empty');
    const now = context.workspace.now();
    for (const row of rows) {
      const { paint } = context;
      context.say(
        values.brief ? `${headline(row, now, paint)}: ${gist(row.message.body)}` : `${whole(row, now, paint)}\n`,
      );
    }
    if (held > 0)
      context.note(`${held} more ${held === 1 ? 'is' : 'are'} held by a reader, or waiting until a later time`);
    const as = context.asOption;
    if (rows.length > 0)
      context.note(`take one: parley take [id]${as}   all: parley drain${as}   answer: parley reply <id> "…"${as}`);
    await forgetDaily(context, who.home);
  },
});

const readCommand = command({
  usage: 'read <id>',
  about:
    'Shows one message in full. If it waits for you, this takes it, whatever its scope; with --peek it still waits. You can read old messages again.',
  options: {
    peek: { type: 'boolean', help: 'do not take it' },
    keep: { type: 'boolean', help: 'keep its file, in cur/' },
  },
  words: [1, 1],
  examples: ['parley read 1f2e3d4c'],
  async run(context: Context, values, [prefix = '']) {
    const who = await context.who('read');
    const isWaiting = (await who.home.mailboxes.ids(who.name)).some((id) => id.startsWith(prefix));
    const box = isWaiting ? { who } : await mailboxWith(who, { any: true }, prefix);
    if ((isWaiting || box.taker !== undefined) && !values.peek) {
      const id = await findWaiting(box.who, prefix);
      const render = (delivered: Parameters<typeof rendered>[1]): string => rendered(context, delivered, true);
      const taken = await takeAndPrint(box, [id], byCommand('read', who), render, values.keep);
      if (taken.length === 0) throw new Refusal('already_claimed', `message ${prefix} was claimed by another session`);
      return;
    }
    // What it was offered there, and has not settled yet, it has seen.
    if (!values.peek) await takeShared(who, prefix);
    if (isWaiting) await bringHere(who, prefix);
    if (isWaiting) await who.home.mailboxes.adopt(who.name);
    const { home, id } = await findMessage(context.workspace, prefix);
    const message = await home.journal.message(id);
    const copy = await home.journal.copy(who.name, id);
    if (!message || (!copy && message.from !== who.name)) {
      throw new Refusal(
        'not_yours',
        `message ${prefix} is neither from you nor to you; \`parley trace ${prefix}\` shows what happened to it`,
      );
    }
    const attention = copy && asOwed(copy.attention, (await claimedBy({ ...who, home })).has(id));
    if (context.json) return context.sayJson({ ...message, attention: attention ?? undefined });
    context.say(whole({ message, attention: attention ?? undefined }, context.workspace.now(), context.paint));
  },
});

const takeCommand = command({
  usage: 'take [id]',
  about:
    'Takes one message: this id, or the oldest that waits for you. It is settled as acknowledged when it is printed.\n' +
    'With --lease you hold it instead: end it with `parley ack`, `parley reply` or `parley release`. When the lease ends, it waits again.',
  options: {
    match: { type: 'string', value: 'context', help: 'your repository, for scoped mail' },
    lease: { type: 'string', value: 'span', help: 'hold it for this time instead of settling it: 30s, 10m, 2h' },
    keep: { type: 'boolean', help: 'keep its file, in cur/' },
  },
  words: [0, 1],
  examples: ['parley take', 'parley take 1f2e3d4c --lease 10m && parley ack 1f2e3d4c'],
  async run(context: Context, values, [prefix]) {
    const who = await context.who('read');
    const match = values.match ?? context.settings.match;
    // What is held for a while stays where it is: one's own mailbox.
    const isLeased = values.lease !== undefined;
    const found = await mailboxWith(who, prefix === undefined ? { match } : { any: true }, prefix);
    const box = isLeased ? { who } : found;
    if (isLeased && prefix !== undefined && found.taker !== undefined)
      throw new Refusal(
        'invalid_request',
        `message ${prefix} is for any session of @${found.who.name}, and cannot be held; take it: parley take ${prefix}`,
      );
    const id =
      prefix === undefined ? (await waitingMail(box, { match }))[0]?.message.id : await findWaiting(box.who, prefix);
    if (!id) {
      if (context.json) return context.sayJson(null);
      return context.say(
        isLeased && found.taker !== undefined
          ? `only mail for any session of @${found.who.name} waits, and that cannot be held; take it: parley take`
          : 'nothing waits for you here',
      );
    }
    if (values.lease !== undefined) {
      const lease = { ms: durationFrom(values.lease), bearer: true };
      const claim = await who.home.mailboxes.claim(box.who.name, [id], lease);
      if (claim.copies.length === 0) throw claimed(id);
      try {
        context.say(rendered(context, claim.copies, true).trimEnd());
      } catch (error) {
        const isPartlyShown = error instanceof PartlyShown;
        await who.home.mailboxes.release(claim, [id], { because: 'it could not be shown' }, undefined, isPartlyShown);
        throw error;
      }
      if (!context.json)
        context.note(
          `held until ${new Date(claim.until).toISOString()}: parley ack ${shortId(id)}, or parley release ${shortId(id)}`,
        );
      return;
    }
    const render = (delivered: Parameters<typeof rendered>[1]): string => rendered(context, delivered, true);
    const taken = await takeAndPrint(box, [id], byCommand('take', who), render, values.keep);
    if (taken.length === 0) throw claimed(id);
  },
});

/** The first of the reader's mailboxes in which such mail waits; its own if there is none. */
async function mailboxWith(who: Who, selection: Selection, prefix = ''): Promise<ReadMailbox> {
  if (who.shares === undefined) return { who };
  for (const box of mailboxesOf(who)) {
    if ((await waitingMail(box, selection)).some(({ message }) => message.id.startsWith(prefix))) return box;
  }
  return { who };
}

function claimed(id: string): Refusal {
  return new Refusal('already_claimed', `message ${shortId(id)} was claimed by another session`);
}

/** Taken messages as words for people or as a JSON value. */
function rendered(context: Context, delivered: Delivered[], one: boolean): string {
  const rows = delivered.map(({ message, attempt, attention }) => ({ message, attempt, attention }));
  if (context.json) {
    const values = rows.map(({ message, attempt, attention }) => ({ ...message, attention, redelivered: attempt > 0 }));
    return `${JSON.stringify(one ? values[0] : values, null, 2)}\n`;
  }
  return rows.map((row) => `${whole(row, context.workspace.now(), context.paint)}\n`).join('\n');
}

const FINAL = Disposition.inner.options.filter((word) => word !== 'claimed' && word !== 'deferred');

const ackCommand = command({
  usage: 'ack <id>',
  about: 'Settles a message that waits for you, or that you hold with `take --lease`. It does not show the message.',
  options: {
    outcome: { type: 'string', value: 'word', help: `${FINAL.join(', ')} (default: acknowledged)` },
    keep: { type: 'boolean', help: 'keep its file, in cur/' },
  },
  words: [1, 1],
  examples: ['parley ack 1f2e3d4c', 'parley ack 1f2e3d4c --outcome ignored'],
  async run(context: Context, values, [prefix = '']) {
    const who = await context.who('read');
    const outcome = values.outcome ?? 'acknowledged';
    const disposition = FINAL.find((word) => word === outcome);
    if (!disposition) throw new Refusal('invalid_request', `"${outcome}" is not an outcome; use ${FINAL.join(', ')}`);
    const { id } = onlyOne(prefix, await openId(who, prefix));
    await settle(who, id, disposition, byCommand('ack', who), values.keep);
    if (context.json) return context.sayJson({ id, step: 'settled', disposition });
    context.say(`settled ${shortId(id)}: ${disposition}`);
  },
});

const releaseCommand = command({
  usage: 'release <id>',
  about:
    'Puts back a message that you hold with `take --lease`, or that a hook has just shown you. It waits again, and is then marked as redelivered.',
  options: { after: { type: 'string', value: 'span', help: 'let it wait again only after this time: 30s, 10m, 2h' } },
  words: [1, 1],
  examples: ['parley release 1f2e3d4c', 'parley release 1f2e3d4c --after 10m'],
  async run(context: Context, values, [prefix = '']) {
    const who = await context.who('read');
    const { id } = onlyOne(prefix, await openId(who, prefix));
    const delay = values.after === undefined ? undefined : durationFrom(values.after);
    await release(who, id, byCommand('release', who), delay);
    if (context.json) return context.sayJson({ id, step: 'stored', afterMs: delay ?? 0 });
    context.say(`released ${shortId(id)}${values.after ? `; it waits again in ${values.after}` : ''}`);
  },
});

const drainCommand = command({
  usage: 'drain',
  about:
    'Takes and prints everything that waits for you: unscoped mail, and scoped mail for your repository. ' +
    'What cannot be printed still waits.',
  options: {
    match: { type: 'string', value: 'context', help: 'your repository, for scoped mail' },
    loud: { type: 'boolean', help: 'leave out quiet mail' },
    limit: { type: 'string', value: 'n', help: 'take at most this many' },
    keep: { type: 'boolean', help: 'keep the files, in cur/' },
  },
  examples: ['parley drain', 'parley drain --match "$(git remote get-url origin)" --json'],
  async run(context: Context, values) {
    const who = await context.who('read');
    const match = values.match ?? context.settings.match;
    const selection = { match, loudOnly: values.loud ?? false };
    let left = countFrom(values.limit, Infinity);
    const wanted: { box: ReadMailbox; mail: Message[] }[] = [];
    for (const box of mailboxesOf(who)) {
      const mail = (await waitingMail(box, selection)).slice(0, left).map(({ message }) => message);
      if (mail.length > 0) wanted.push({ box, mail });
      left -= mail.length;
    }
    let isBegun = false;
    for (const { box, mail } of wanted) {
      const isLast = box === wanted.at(-1)?.box;
      const render = (delivered: Delivered[]): string =>
        continued(rendered(context, delivered, false), { isBegun, isLast, json: context.json });
      const taken = await takeAndPrint(box, mail, byCommand('drain', who), render, values.keep);
      if (taken.length > 0) isBegun = true;
      // Another reader took the rest.
      else if (isLast && isBegun && context.json) writeAll(1, LIST_END);
    }
    if (isBegun) return;
    if (context.json) return context.sayJson([]);
    context.say('nothing waits for you here');
  },
});

const LIST_END = '\n]\n';

/** What was taken from one of several mailboxes, as a part of one output. As JSON all parts are one list. */
function continued(text: string, part: { isBegun: boolean; isLast: boolean; json: boolean }): string {
  const { isBegun, isLast, json } = part;
  if (!json) return isBegun ? `\n${text}` : text;
  const open = isLast ? text : text.slice(0, -LIST_END.length);
  return isBegun ? `,${open.slice('['.length)}` : open;
}

const watchCommand = command({
  usage: 'watch',
  about:
    'Shows each message once, waiting and new, until Ctrl-C. It takes nothing: the next `watch` shows the mail again.\n' +
    '--take takes each message when it is printed.\n' +
    '--once waits until mail is there that would wake you, says in one line how much, and ends. It takes nothing. If the client of an agent ' +
    'begins a turn when a background command ends, the agent can wait with it.\n' +
    '--exec runs a command on each message, by `sh -c`, with BCH_ID, BCH_FROM, BCH_TO, BCH_PRIORITY, BCH_SCOPE, BCH_THREAD, ' +
    'BCH_TS and BCH_BODY in its environment and the message as JSON on stdin. {{body}} means ${BCH_BODY}, and so on: write ' +
    'them in double quotes, and never inside code for another shell. If the command ends with 0, the message is settled; otherwise it is ' +
    'tried again after 5 s, 10 s, … 5 min. (If a body has more than 100,000 bytes, BCH_BODY is its start, and BCH_BODY_CUT is 1.)',
  options: {
    take: { type: 'boolean', help: 'take each message when it is printed' },
    exec: {
      type: 'string',
      value: 'command',
      help: 'run this on each message; settle it if the command ends with 0',
    },
    once: { type: 'boolean', help: 'end when mail waits, and only say so' },
    peek: { type: 'boolean', help: 'with --exec: take nothing; the command runs once per message' },
    'urgent-only': { type: 'boolean', help: 'only urgent messages' },
    match: { type: 'string', value: 'context', help: 'your repository, for scoped mail' },
    all: { type: 'boolean', help: 'also quiet mail' },
    notify: { type: 'boolean', help: 'show a desktop notification for each message, or ring the bell' },
  },
  examples: [
    'parley watch --urgent-only --notify',
    'parley watch --take --json',
    'parley watch --once',
    'parley watch --exec \'codex exec "$(cat)"\'',
    'parley watch --exec \'./on-mail "{{from}}" "{{body}}"\' --match "$(git remote get-url origin)"',
  ],
  async run(context: Context, values) {
    const who = await context.who('read');
    const peek = isPeek(values);
    const match = values.match ?? context.settings.match;
    const selection = {
      match,
      any: peek && !match,
      urgentOnly: values['urgent-only'] ?? false,
      loudOnly: !values.all,
    };
    if (values.once) {
      if (values.take || values.exec !== undefined || values.notify)
        throw new Refusal('invalid_request', '--once only says that mail waits; leave out --take, --exec and --notify');
      return sayWhenMailWaits(context, who, selection);
    }
    await watchMail(who, {
      selection,
      peek,
      greeting: `watching for mail to @${who.name}${peek ? '; it still waits when shown, --take takes it' : ''} (Ctrl-C stops)`,
      exec: values.exec,
      env: context.env,
      ...(values.notify && { announce: (message) => notify(message, context.env) }),
      render(shown) {
        if (!context.json) return `${whole(shown, context.workspace.now(), context.paint)}\n\n`;
        const { message, attention, attempt = 0 } = shown;
        return `${JSON.stringify({ ...message, attention, redelivered: attempt > 0 })}\n`;
      },
    });
  },
});

async function sayWhenMailWaits(context: Context, who: Who, selection: Selection): Promise<void> {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  const mail = await awaitMail(mailboxesOf(who), selection, stop.signal);
  if (context.json) return context.sayJson(mail.map(({ message: { id, from } }) => ({ id, from })));
  const from = [...new Set(mail.map((one) => `@${visibleLine(one.message.from, 64)}`))].join(', ');
  if (mail.length > 0)
    context.say(`mail waits for @${who.name}: ${mail.length} from ${from}; see it with \`parley inbox\``);
}

/** Without --take or --exec nothing is taken. */
function isPeek({ peek, take, exec }: { peek?: boolean; take?: boolean; exec?: string }): boolean {
  if (peek && take) throw new Refusal('invalid_request', '--peek takes nothing and --take does; give one of them');
  return peek ?? !(take || exec !== undefined);
}

/** A desktop without a notification service must not hold up the mail. */
const PATIENCE_MS = 3000;

/** Tells a person at the desktop, or rings the terminal's bell. Never fails, and nothing of the message is ever run. */
async function notify(message: Message, env: Env): Promise<void> {
  const title = `${message.priority === 'urgent' ? 'Urgent mail' : 'Mail'} from ${visibleLine(message.from, 64)}`;
  const command = notifier(title, gist(message.body, 200), env);
  if (command && (await succeeds(command, env))) return;
  writeAll(2, '\u0007');
}

/** Title and text are arguments, never part of a script. */
function notifier(title: string, text: string, env: Env): string[] | null {
  const path = { PATH: env['PATH'] ?? '' };
  const send = Bun.which('notify-send', path);
  // Notification services read a few tags in the text.
  if (send)
    return [send, '--app-name=parley', '--', title, text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)];
  const script = Bun.which('osascript', path);
  const lines = ['on run argv', 'display notification (item 2 of argv) with title (item 1 of argv)', 'end run'];
  if (!script) return null;
  return [script, ...lines.flatMap((line) => ['-e', line]), title, text];
}

async function succeeds(command: string[], env: Env): Promise<boolean> {
  try {
    const child = Bun.spawn(command, {
      env,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
      timeout: PATIENCE_MS,
    });
    return (await child.exited) === 0;
  } catch {
    return false;
  }
}

const FIRST_STEPS = [
  'Next:',
  '  parley run claude            start a client with a mailbox (also codex, opencode, kimi, gemini)',
  '  parley init <name> --human   make a mailbox for yourself',
  '  parley demo                  see it work first',
  '  parley help                  everything else',
];

/** `parley` alone: who you are, what waits, and the next command. */
export const overview = command({
  usage: '',
  async run(context: Context) {
    const who = await context.who('read').catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 'no_identity') return error;
      throw error;
    });
    if (who instanceof Refusal) {
      if (context.json) return context.sayJson({ agent: null, next: 'parley init <name>' });
      const isUnnamed = context.settings.agent === undefined;
      context.say(isUnnamed ? 'You have no mailbox here yet.' : `You have no mailbox here: ${who.message}.`);
      for (const line of FIRST_STEPS) context.say(line);
      return;
    }
    const mail = (await Promise.all(mailboxesOf(who).map((box) => waitingMail(box, { any: true })))).flat();
    const loud = mail.filter((one) => !one.quiet);
    const urgent = loud.filter((one) => one.message.priority === 'urgent').length;
    if (context.json) {
      return context.sayJson({
        agent: who.name,
        home: who.home.root,
        waiting: loud.length,
        urgent,
        quiet: mail.length - loud.length,
      });
    }
    const counts = [
      `${loud.length} waiting`,
      urgent > 0 ? `${urgent} urgent` : '',
      `${mail.length - loud.length} quiet`,
    ].filter(Boolean);
    context.say(`You are ${context.paint.bold(`@${who.name}`)}: ${counts.join(', ')}.`);
    context.say(
      mail.length > 0
        ? 'Next: parley inbox'
        : 'Next: parley send @<someone> "…"      Who is here: parley agents      Help: parley help',
    );
    await forgetDaily(context, who.home);
  },
});

export const commands = {
  inbox: inboxCommand,
  read: readCommand,
  take: takeCommand,
  ack: ackCommand,
  release: releaseCommand,
  drain: drainCommand,
  watch: watchCommand,
};
