import { isQuietTime } from '../../core/attention/quiet-hours.ts';
import { command } from '../../core/command.ts';
import { ago, clockTime, countFrom, momentFrom } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { disown, own } from '../../core/obligations/owners.ts';
import { claim, unclaim } from '../../core/obligations/claim.ts';
import { defer, resolve } from '../../core/obligations/defer.ts';
import { COUNTED, blocked, owe } from '../../core/obligations/owed.ts';
import { react } from '../../core/obligations/react.ts';
import type { Reaction } from '../../core/obligations/react.ts';
import { findMessage } from '../../core/mail/workspace.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { isTerminal } from '../../platform/terminal.ts';
import type { Message } from '../../core/message.ts';
import { SendKey, isMessageId, shortId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import type { Quiet } from '../../core/attention/quiet-hours.ts';
import { Refusal } from '../../core/refusal.ts';
import { isSure, refuseUnlessUser } from '../../platform/authority.ts';
import type { ObligationPage } from '../../core/ports/obligations.ts';
import { channelName } from '../context.ts';
import type { Context } from '../context.ts';
import { eventFrom } from '../find.ts';
import { gist, whole } from '../words.ts';

type Owed = Awaited<ReturnType<typeof owe>>['obligations'][number];

const oweCommand = command({
  usage: 'owe',
  about:
    'Lists the messages that you must answer and have not answered, oldest first. With --blocking: the answers that others owe you.',
  options: {
    blocking: { type: 'boolean', help: 'answers that others owe you' },
    limit: { type: 'string', value: 'n', help: 'how many (default 20)' },
    after: { type: 'string', value: 'place', help: 'the next page: the text that the page before ends with' },
  },
  examples: ['parley owe', 'parley owe --blocking', 'parley owe --json'],
  async run(context: Context, values) {
    const who = await context.who('read');
    const page: ObligationPage = { limit: countFrom(values.limit, 20), after: placeFrom(values.after) };
    const { obligations, count, more } = await (values.blocking ? blocked(who, page) : owe(who, page));
    const last = obligations.at(-1);
    const next = more && last ? `${last.at}:${last.id}` : null;
    if (context.json) return context.sayJson({ duties: obligations, count, more, next });
    if (obligations.length === 0) return context.say(values.blocking ? 'nobody owes you anything' : 'you owe nothing');
    for (const obligation of obligations) context.say(line(context, obligation, values.blocking ?? false));
    if (next) context.note(`${total(count, obligations.length)}next page: --after ${next}`);
    if (!values.blocking)
      context.note(
        'answer: parley reply <id> "…"   one word: parley react <id> done   later: parley defer <id> --reason "…"',
      );
  },
});

function line({ workspace, paint }: Context, obligation: Owed, blocking: boolean): string {
  const { id, from, mailbox, kind, state, due, at, note, message } = obligation;
  const marks = [
    kind === 'obligation' ? paint.red('blocks its sender') : '',
    state === 'open' ? '' : paint.yellow(state),
    due === null ? '' : `${state === 'deferred' ? 'until' : 'due'} ${clockTime(due)}`,
  ].filter(Boolean);
  const who = blocking ? `@${mailbox} owes you` : `for @${lineForModel(from, 64)}`;
  const about = message ? gist(message.body) || '(empty)' : '(the body is no longer kept)';
  const why = note === null ? '' : `\n  ${paint.dim(lineForModel(note))}`;
  return `${paint.bold(shortId(id))}  ${who}  ${paint.dim(ago(new Date(at).toISOString(), workspace.now()))}${marks.length > 0 ? `  ${marks.join(' · ')}` : ''}\n  ${about}${why}`;
}

/** How many there are, as far as they were counted. */
function total(count: number, shown: number): string {
  if (count >= COUNTED) return `${COUNTED} or more; `;
  return count > shown ? `${count} in all; ` : '';
}

function placeFrom(text: string | undefined): ObligationPage['after'] {
  if (text === undefined) return undefined;
  const [, at = '', id] = /^(\d{1,15}):(.+)$/.exec(text) ?? [];
  if (isMessageId(id)) return { at: Number(at), id };
  throw new Refusal('invalid_request', '--after needs the text that the page before ends with');
}

const claimCommand = command({
  usage: 'claim <id>',
  about:
    'Makes you the one who answers a message to several agents, such as one to a role or a channel. A claim lasts ten minutes, and is ' +
    'extended while you work on it. If another agent has claimed it, this is refused with its name.',
  options: { release: { type: 'boolean', help: 'give it up, so that another agent can answer' } },
  words: [1, 1],
  examples: ['parley claim 1f2e3d4c', 'parley claim 1f2e3d4c --release'],
  async run(context: Context, values, [prefix = '']) {
    const { who, id } = await eventFrom(context, prefix);
    if (values.release) {
      const released = await unclaim(context.workspace, who, id);
      if (context.json) return context.sayJson({ id, released });
      return context.say(
        released ? `released ${shortId(id)}: another agent can claim it` : `${shortId(id)} was not claimed by you`,
      );
    }
    const { holder, until, key } = await claim(context.workspace, who, id);
    if (context.json) return context.sayJson({ id, key, holder, until: new Date(until).toISOString() });
    context.say(`${context.paint.green('claimed')} ${shortId(id)} until ${clockTime(until)}`);
    context.note(`answer it: parley reply ${shortId(id)} "…"   give it up: parley claim ${shortId(id)} --release`);
  },
});

const deferCommand = command({
  usage: 'defer <id>',
  about:
    'Postpones an answer that you owe, and tells the sender why. You still owe it: it comes back at --until, or after 30 minutes.',
  options: {
    reason: { type: 'string', value: 'text', help: 'why; the sender sees it (required)' },
    until: { type: 'string', value: 'when', help: 'when it comes back: 30m, 2h, 07:30 or an ISO time' },
  },
  words: [1, 1],
  examples: ['parley defer 1f2e3d4c --reason "the tests run until five" --until 17:00'],
  async run(context: Context, values, [prefix = '']) {
    const { reason = '' } = values;
    if (reason.trim() === '') throw new Refusal('invalid_request', 'give a reason for the sender: --reason "…"');
    const until = values.until === undefined ? undefined : momentFrom(values.until, context.workspace.now());
    const { who, id } = await eventFrom(context, prefix);
    const { state, due } = await defer(context.workspace, who, id, { reason, ...(until !== undefined && { until }) });
    if (context.json)
      return context.sayJson({ id, state, reason, due: due === null ? null : new Date(due).toISOString() });
    context.say(`deferred ${shortId(id)}: still owed${due === null ? '' : `, again from ${clockTime(due)}`}`);
  },
});

const resolveCommand = command({
  usage: 'resolve <id>',
  about:
    'Ends what you owe for a message, and what others owe you for it. For the first message of a thread: for the whole thread.',
  options: { note: { type: 'string', value: 'text', help: 'how, for the record' } },
  words: [1, 1],
  examples: ['parley resolve 1f2e3d4c --note "fixed in 4f2c1d"'],
  async run(context: Context, values, [prefix = '']) {
    const { who, id } = await eventFrom(context, prefix);
    const resolved = await resolve(context.workspace, who, id, values.note);
    if (context.json) return context.sayJson({ id, resolved });
    if (resolved.length === 0)
      return context.say(`there is nothing open in ${shortId(id)} that you can end; see \`parley owe\``);
    context.say(`resolved ${resolved.map(shortId).join(', ')}`);
  },
});

const ownCommand = command({
  usage: 'own [#channel|id]',
  about:
    'Makes you the owner of a channel, or of the thread of a message: messages there that name nobody go to you, and wake no other model. ' +
    'Without arguments it lists what you own.',
  options: { release: { type: 'boolean', help: 'give it up' } },
  words: [0, 1],
  examples: ['parley own "#deploy"', 'parley own 1f2e3d4c', 'parley own "#deploy" --release', 'parley own'],
  async run(context: Context, values, [text]) {
    const who = await context.who();
    if (text === undefined) return list(context, who);
    const what = text.startsWith('#') ? channelName(text) : await exchangeFrom(context, who, text);
    const changed = values.release ? await disown(who, what) : await own(who, what);
    const record = await who.home.directory.get(who.name);
    if (context.json) return context.sayJson({ agent: who.name, what, changed, owns: record?.parley?.owns ?? [] });
    const name = shown(what);
    if (values.release)
      context.say(changed ? `${name} is not @${who.name}'s any more` : `${name} was not @${who.name}'s`);
    else context.say(`${name} ${changed ? 'is' : 'was'} @${who.name}'s${changed ? ' now' : ' already'}`);
    if (!values.release && what.startsWith('#') && !record?.subscriptions.includes(what))
      context.note(`you get its mail only if you subscribe: parley sub "${what}"`);
  },
});

/** The first message of the thread. Only its senders and recipients can own it. */
async function exchangeFrom(context: Context, { name, home }: Who, prefix: string): Promise<string> {
  const { home: found, id } = await findMessage(context.workspace, prefix);
  const message = await found.journal.message(id);
  const isMine = found === home && (message?.from === name || (await home.journal.copy(name, id)) !== null);
  if (!isMine) throw new Refusal('not_yours', `message ${prefix} is neither from you nor to you`);
  return message?.parley?.lineage?.root ?? id;
}

async function list(context: Context, who: Who): Promise<void> {
  const owns = (await who.home.directory.get(who.name))?.parley?.owns ?? [];
  if (context.json) return context.sayJson({ agent: who.name, owns });
  context.say(
    owns.length > 0
      ? owns.map(shown).join('\n')
      : `@${who.name} owns nothing; own a channel with \`parley own "#name"\``,
  );
}

function shown(what: string): string {
  return what.startsWith('#') ? what : `the thread ${shortId(what)}`;
}

const quietCommand = command({
  usage: 'quiet [on|off|until|hours] [when]',
  about:
    'Mutes your mail: only urgent mail from people interrupts you. Mail waits, and what you owe stays owed. Without arguments it shows ' +
    'the state. Hours are local time and may cross midnight.',
  words: [0, 2],
  examples: [
    'parley quiet',
    'parley quiet on',
    'parley quiet until 2h',
    'parley quiet until 07:30',
    'parley quiet hours 22:00-07:00',
    'parley quiet off',
  ],
  async run(context: Context, _values, [word, when]) {
    const who = await context.who();
    const now = context.workspace.now();
    if (word !== undefined) {
      const quiet = quietFrom(word, when, now);
      await who.home.directory.amend(who.name, () => ({ quiet }));
    }
    const quiet = (await who.home.directory.get(who.name))?.parley?.quiet;
    const isNow = isQuietTime(quiet, now, minutesOfDay(now));
    if (context.json) return context.sayJson({ agent: who.name, quiet: quiet ?? null, now: isNow });
    context.say(told(quiet, isNow));
  },
});

function quietFrom(word: string, when: string | undefined, now: number): Quiet | undefined {
  if ((word === 'on' || word === 'off') && when === undefined) return word === 'on' ? { on: true } : undefined;
  if (word === 'until' && when !== undefined) return { until: momentFrom(when, now) };
  if (word === 'hours' && when !== undefined) return { hours: hoursFrom(when) };
  throw new Refusal('invalid_request', 'usage: parley quiet on | off | until <time> | hours <22:00-07:00>');
}

function hoursFrom(text: string): string {
  const [, from, to] = /^((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text) ?? [];
  if (from === undefined || from === to)
    throw new Refusal(
      'invalid_request',
      `"${text.slice(0, 40)}" is not a range of hours; write two different times such as 22:00-07:00`,
    );
  return text;
}

function told(quiet: Quiet | undefined, isNow: boolean): string {
  if (!quiet || (!isNow && 'until' in quiet)) return 'not quiet: mail is shown as usual';
  if ('on' in quiet) return 'quiet until you say `parley quiet off`';
  if ('until' in quiet) return `quiet until ${quiet.until}`;
  return `quiet every day ${quiet.hours.replace('-', ' to ')}; ${isNow ? 'it is quiet now' : 'not now'}`;
}

function minutesOfDay(now: number): number {
  const at = new Date(now);
  return at.getHours() * 60 + at.getMinutes();
}

const approveCommand = command({
  usage: 'approve <id> [note …]',
  about:
    'Approves a request of an agent. Only a person can, at a terminal: it shows the request in full and asks you to confirm.',
  options: { yes: { type: 'boolean', help: 'do not ask to confirm; a terminal is still needed' } },
  words: [1, Infinity],
  examples: ['parley approve 1f2e3d4c', 'parley approve 1f2e3d4c "only on staging"'],
  async run(context: Context, values, [prefix = '', ...note]) {
    await answerApproval(context, prefix, { signal: 'agree', note: note.join(' '), sure: values.yes ?? false });
  },
});

const denyCommand = command({
  usage: 'deny <id> [reason …]',
  about:
    'Denies a request of an agent. Only a person can, at a terminal. The agent gets your answer, with the reason if you give one.',
  options: { yes: { type: 'boolean', help: 'do not ask to confirm; a terminal is still needed' } },
  words: [1, Infinity],
  examples: ['parley deny 1f2e3d4c', 'parley deny 1f2e3d4c "not on a Friday"'],
  async run(context: Context, values, [prefix = '', ...reason]) {
    await answerApproval(context, prefix, { signal: 'declined', note: reason.join(' '), sure: values.yes ?? false });
  },
});

/** What a person says to a request. */
interface Verdict {
  signal: 'agree' | 'declined';
  /** In the person's own words; may be empty. */
  note: string;
  /** Skip the second question. */
  sure: boolean;
}

/** How much of an exchange is looked at to see whether it was answered before. */
const EXCHANGE = 200;

/** A person's yes or no to a request for approval, typed at a terminal with the request before their eyes. */
async function answerApproval(context: Context, prefix: string, verdict: Verdict): Promise<void> {
  refuseWithoutPerson(context);
  const { who, id } = await eventFrom(context, prefix);
  const request = await requestTo(who, id);
  const { signal } = verdict;
  const [word, verb] = signal === 'agree' ? (['approved', 'approve'] as const) : (['denied', 'deny'] as const);
  if ((await lastWord(who, request)) === signal) {
    if (context.json) return context.sayJson({ id, signal, first: false });
    return context.say(`you already ${word} ${shortId(id)}; nothing was sent`);
  }
  context.note(whole({ message: request }, context.workspace.now(), context.paint));
  const held = request.parley?.held;
  if (held)
    context.note(
      `if you approve, this goes to ${lineForModel(held.to, 64)} from @${request.from}; it came from a private message`,
    );
  const question = `Do you, @${who.name}, ${verb} this?`;
  if (!verdict.sure && !isSure(context, question))
    throw new Refusal('invalid_request', `nothing was sent to @${request.from}; the request still waits`);
  const note = verdict.note.trim();
  // What a person types is one act, also if it was said before and taken back since.
  const key = SendKey.parse(`approval/${crypto.randomUUID()}`);
  const reaction: Reaction = { signal, key, ifUnknown: 'refuse', ...(note !== '' && { note }) };
  const { sent, disposition } = await react(context.workspace, who, id, reaction);
  if (context.json)
    return context.sayJson({ id, signal, reaction: sent?.message.id ?? null, disposition, first: true });
  context.say(`${context.paint.green(word)} ${shortId(id)}; @${request.from} gets your answer`);
}

/** The request, if it is one, and if it is this person who was asked. */
async function requestTo({ name, home }: Who, id: MessageId): Promise<Message> {
  const kind = (await home.directory.get(name))?.parley?.kind;
  if (kind !== 'human')
    throw new Refusal(
      'not_yours',
      `@${name} is an agent; only a person approves or denies: --as <the person's mailbox>`,
    );
  const message = await home.journal.message(id);
  if (!message || !(await home.journal.copy(name, id)))
    throw new Refusal('not_yours', `message ${shortId(id)} was not sent to @${name}`);
  if (message.parley?.intent !== 'approval')
    throw new Refusal(
      'invalid_request',
      `message ${shortId(id)} asks for no approval; answer it: parley reply ${shortId(id)} "…"`,
    );
  return message;
}

/** What this person said to it last. */
async function lastWord({ name, home }: Who, request: Message): Promise<string | undefined> {
  const root = request.parley?.lineage?.root ?? request.id;
  const said = (await home.journal.exchange(root, EXCHANGE)).filter(
    ({ from, thread, parley }) => from === name && thread === request.id && parley?.signal !== undefined,
  );
  return said.at(-1)?.parley?.signal;
}

/** Refuses to answer a request where nobody can be asked: the question is read from stdin. */
function refuseWithoutPerson({ env }: Context): void {
  refuseUnlessUser(env, 'approve or deny');
  if (isTerminal(0)) return;
  throw new Refusal(
    'not_yours',
    'Only the user can approve or deny. The answer is read from stdin, which is not a terminal. Run it in your own terminal.',
  );
}

export const commands = {
  owe: oweCommand,
  claim: claimCommand,
  defer: deferCommand,
  resolve: resolveCommand,
  own: ownCommand,
  quiet: quietCommand,
  approve: approveCommand,
  deny: denyCommand,
};
