import { inShell, shellWord } from '../../clients/shell-word.ts';
import { command } from '../../core/command.ts';
import { ago, deadlineFrom } from '../../core/time.ts';
import { withLimit } from '../../core/wait.ts';
import { heldLines } from '../../core/mail/held.ts';
import { nearest } from '../../core/nearest.ts';
import { raise } from '../../core/obligations/escalate.ts';
import { react } from '../../core/obligations/react.ts';
import type { Reacted } from '../../core/obligations/react.ts';
import { answer, send } from '../../core/mail/send.ts';
import type { Sent } from '../../core/mail/send.ts';
import { withdraw } from '../../core/mail/settle.ts';
import { findMessage } from '../../core/mail/workspace.ts';
import type { Home, Who } from '../../core/mail/workspace.ts';
import { isShared } from '../../delivery/client-bindings.ts';
import { isShown, SessionNames } from '../../delivery/session-names.ts';
import type { NamedSession } from '../../delivery/session-names.ts';
import { parleyHome } from '../../platform/env.ts';
import { textFrom } from '../../platform/input.ts';
import { policyWords } from '../../core/attention/attention.ts';
import type { Policy } from '../../core/attention/attention.ts';
import { Draft } from '../../core/message.ts';
import { MessageId, SendKey, shortId } from '../../core/names.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import { Refusal } from '../../core/refusal.ts';
import { SIGNALS, Signal, isKnownSignal } from '../../core/signal.ts';
import { StorageFailure, storageTrouble } from '../../core/disk.ts';
import { agentName } from '../context.ts';
import type { Context } from '../context.ts';
import { eventFrom, bringHere } from '../find.ts';
import { requestFollowerFor } from '../start-follower.ts';
import { hasNoReader, noReaderAdvice, unwokenAdvice } from '../unread.ts';

/** What the sender wants of the reader: options of `send` and `reply`. */
const ASKS = {
  intent: {
    type: 'string',
    value: 'intent',
    help: 'none, question, assignment, approval, blocker, fyi, status or thanks',
  },
  fyi: { type: 'boolean', help: 'for information: nobody owes an answer (same as --intent fyi)' },
  deadline: { type: 'string', value: 'when', help: 'when an answer is needed: 30m, 2h, 1d or an ISO time' },
} as const;

const sendCommand = command({
  usage: 'send <@agent|@role|#channel> [text …]',
  about:
    'Sends a message to one agent, role or channel. "stored" means: flushed to disk. Without text, or with -, it reads the text from stdin.',
  options: {
    ...ASKS,
    key: { type: 'string', value: 'key', help: 'send once per key: a repeat changes nothing' },
    'first-tried': {
      type: 'string',
      value: 'time',
      help: 'when you first tried this key (ISO time), for a repeat after a failure',
    },
    'reply-to': { type: 'string', value: 'id', help: 'the message that this answers' },
    scope: { type: 'string', value: 'repo', help: "only for the recipient's sessions in this repository" },
    ref: { type: 'string', multiple: true, value: 'path|url', help: 'a file or link that this is about' },
    urgent: { type: 'boolean', help: 'mark it as urgent' },
    blocks: {
      type: 'string',
      value: 'how',
      help: 'my work waits for this: halted, degraded or none; only I can end it (parley react <id> done --for @agent)',
    },
    'or-else': { type: 'string', value: 'text', help: 'with --blocks: what I do if nobody answers' },
    delegate: { type: 'string', value: 'agent', help: 'with --blocks: who else may say that it is done' },
  },
  words: [1, Infinity],
  examples: [
    'parley send @codex-1 "the build is red on main" --intent blocker',
    'parley send "#backend" "deploy at five" --key deploy-notice-17',
    'parley send @codex-1 "main is green again" --fyi',
    'git diff | parley send @reviewer - --ref src/api.ts',
    'parley send @dba "may I drop the old index?" --blocks halted --or-else "I keep it"',
  ],
  async run(context: Context, values, [to = '', ...text]) {
    if (to.includes(',') || /^[@#]\S+$/.test(text[0] ?? '')) {
      refuseSeveral(to, text, values);
    }
    if (!/^[@#]/.test(to)) throw noRecipient(to);
    const who = await context.who();
    const draft = parseDraft({
      to,
      body: await textFrom(text, context.workspace.bodyLimit),
      priority: values.urgent ? 'urgent' : 'normal',
      scope: values.scope,
      thread: values['reply-to'] && (await threadOf(context, values['reply-to'])),
      refs: values.ref,
      intent: intentFrom(values),
      deadline: deadlineFrom(values.deadline, context.workspace.now()),
      key: values.key,
      firstTried: values['first-tried'],
      obligation: obligationFrom(values),
    });
    const sent = await send(context.workspace, who.name, draft);
    report(context, sent);
    await noteFolder(context, sent);
    await warnNoReader(context, sent);
    requestFollowerFor(context.env, sent.copies);
  },
});

/** Of several sessions that may take a message, one in the sender's folder is woken first. */
async function noteFolder(context: Context, { copies, first, home, message }: Sent): Promise<void> {
  const { env, cwd } = context;
  const shared = copies.filter(({ mailbox }) => home.label === 'parley' && isShared(parleyHome(env), mailbox));
  if (!first) return;
  try {
    for (const { mailbox } of shared)
      await home.journal.record(mailbox, message.id, { step: 'stored', at: message.ts, evidence: { folder: cwd } });
  } catch (error) {
    // The message is stored and reported. Without the note it goes to any of the sessions.
    context.log('no_folder', { error: String(error) });
  }
}

function noRecipient(word: string): Refusal {
  const shown = word.replace(/\p{Cc}/gu, ' ').slice(0, 40);
  return new Refusal(
    'invalid_request',
    `"${shown}" is not a recipient: write @name for an agent or a role, "#name" for a channel; for example: parley send @codex "…"`,
  );
}

/** Says when nobody reads the one mailbox that got this, or when its client is not woken. The message is stored: what fails here must not hide that. */
async function warnNoReader(context: Context, { copies, home, message }: Sent): Promise<void> {
  const [only, ...others] = copies;
  if (!only || others.length > 0 || only.mailbox === message.from) return;
  try {
    const record = await home.directory.get(only.mailbox);
    if (!record) return;
    const now = context.workspace.now();
    const isUnread = await hasNoReader(home, record, now);
    const advice = isUnread ? noReaderAdvice([only.mailbox]) : unwokenAdvice(home, only.mailbox);
    if (advice !== null) context.note(advice);
    else await noteAway(context, record, now);
  } catch (error) {
    context.log('no_reader', { error: String(error) });
  }
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** How long a send waits for a client that is asked whether a session runs. */
const ASK_MS = 1000;

/**
 * Says that a session does not run here: it ended or crashed, or is in another container. Its mail waits for the next one in its folder. Of a
 * session that shares its process with others (`kimi web`, a Codex that a person started) it only says if it was not there for a day: nothing
 * here tells that it ended.
 */
async function noteAway(context: Context, { name, lastSeen }: AgentRecord, now: number): Promise<void> {
  const names = new SessionNames(parleyHome(context.env));
  const session = names.lastSeen(name, now);
  const seen = session && Math.max(session.at, Date.parse(lastSeen) || 0);
  if (!session || seen === null || session.at === now) return;
  const isLately = now - seen < DAY_MS;
  const named = names.all().find((one) => one.name === name);
  if (isLately && (named?.pid === 0 || (named && (await isInAnotherWindow(context, named))))) return;
  const since = isLately ? 'does not run here now' : `was last seen ${ago(new Date(seen).toISOString(), now)}`;
  context.note(`@${name} ${since}; the next ${session.client} session in ${session.folder} gets this`);
}

/**
 * Whether the conversation of this name goes on in a window that the name does not know: the daemon of Codex keeps a conversation when its
 * window ends, and runs the hooks of all windows. Its answer is asked for only here, because that takes a moment.
 */
async function isInAnotherWindow({ env }: Context, named: NamedSession): Promise<boolean> {
  if (named.client !== 'codex') return false;
  const { liveClients } = await import('../../clients/clients.ts');
  const sessions = liveClients(env).get(named.client);
  const all = sessions
    ? await withLimit(
        sessions.list().catch(() => null),
        ASK_MS,
      )
    : null;
  await sessions?.close();
  return !all || isShown(named, all);
}

/** Few messages say which one they answer: the others pay nothing for it. */
async function threadOf(context: Context, id: string): Promise<string> {
  return (await findMessage(context.workspace, id)).id;
}

function obligationFrom(values: { blocks?: string; 'or-else'?: string; delegate?: string }): object | undefined {
  const { blocks, 'or-else': defaultAction, delegate } = values;
  if (blocks !== undefined) return { blocks, defaultAction, delegate: delegate?.replace(/^@/, '') };
  if (defaultAction === undefined && delegate === undefined) return undefined;
  throw new Refusal('invalid_request', '--or-else and --delegate go with --blocks halted, degraded or none');
}

/** The options behind the parts of a draft that have another name. */
const OPTION_FOR: Partial<Record<string, string>> = {
  refs: 'ref',
  thread: 'reply-to',
  firstTried: 'first-tried',
  'obligation.blocks': 'blocks',
  'obligation.defaultAction': 'or-else',
  'obligation.delegate': 'delegate',
};

/** The first complaint about a draft, in one line, by the option that it is about. */
export function parseDraft(input: Record<string, unknown>): Draft {
  const draft = Draft.safeParse(input);
  if (draft.success) return draft.data;
  const part = draft.path.replace(/\.\d+$/, '');
  const isOption = part !== '' && part !== 'to' && part !== 'body';
  throw new Refusal('invalid_request', `${isOption ? `--${OPTION_FOR[part] ?? part}: ` : ''}${draft.why}`);
}

/** What the reader has to do, as its sender reads it. */
function policyOf(policy: Policy): string {
  return policy === 'must_not_respond' ? 'must not respond: for reading only' : policyWords(policy);
}

/** Says what is proven of a send, and no more: stored. */
function report(context: Context, sent: Sent): void {
  try {
    tell(context, sent);
  } catch (error) {
    const told = storageTrouble(error);
    if (!(told instanceof StorageFailure)) throw error;
    const outcome = `but message ${shortId(sent.message.id)} is stored`;
    throw new StorageFailure('the output could not be written', outcome, 'do not send it again');
  }
}

function tell(context: Context, sent: Sent): void {
  const { message, copies, first, home, trouble } = sent;
  context.log('stored', { id: message.id, home: home.label, copies: copies.length, first });
  if (context.json) {
    const { id, to, ts } = message;
    const held = heldLines(copies, 'command');
    return context.sayJson({
      id,
      to,
      ts,
      step: 'stored',
      first,
      home: home.label,
      copies,
      ...(held.length > 0 && { held }),
      ...(trouble !== undefined && { trouble }),
    });
  }
  // Who got a copy there is for the relay to know.
  if (home.remote) {
    const said = `${first ? 'stored' : 'already stored under this key:'} ${shortId(message.id)}`;
    return context.say(`${context.paint.green(said)} at ${home.remote.url} for ${message.to}`);
  }
  const [only] = copies;
  const names = copies.map((copy) => `@${copy.mailbox}`).join(', ');
  const policy = copies.length === 1 && only ? ` (${policyOf(only.attention.policy)})` : '';
  const word = first ? 'stored' : 'already stored under this key:';
  const after = trouble === undefined ? '' : `; the steps after the send failed: ${trouble}`;
  context.say(`${context.paint.green(word)} ${shortId(message.id)} for ${names}${policy}${after}`);
  for (const line of heldLines(copies, 'command')) context.say(line);
}

/** What the sender wants, by `--intent` or its short form `--fyi`. */
function intentFrom({ intent, fyi }: { intent?: string; fyi?: boolean }): string {
  if (!fyi) return intent ?? 'none';
  if (intent === undefined || intent === 'fyi') return 'fyi';
  throw new Refusal('invalid_request', `--fyi means --intent fyi; leave out --fyi or --intent ${intent.slice(0, 40)}`);
}

const replyCommand = command({
  usage: 'reply <id> [text …]',
  about:
    'Answers the sender of a message, in its thread, and settles your copy as responded. Without text, or with -, it reads the text from stdin.',
  options: {
    ...ASKS,
    key: { type: 'string', value: 'key', help: 'send once per key' },
    ref: { type: 'string', multiple: true, value: 'path|url', help: 'a file or link that this is about' },
    urgent: { type: 'boolean', help: 'mark it as urgent' },
  },
  words: [1, Infinity],
  examples: ['parley reply 1f2e3d4c "yes, rolled back at 14:02"'],
  async run(context: Context, values, [prefix = '', ...text]) {
    const who = await context.who();
    // Mail of other programs may not have been looked at yet.
    await bringHere(who, prefix);
    await who.home.mailboxes.adopt(who.name);
    const { home, id } = await findMessage(context.workspace, prefix);
    const draft = parseDraft({
      to: '-',
      body: await textFrom(text, context.workspace.bodyLimit),
      priority: values.urgent ? 'urgent' : 'normal',
      refs: values.ref,
      intent: intentFrom(values),
      deadline: deadlineFrom(values.deadline, context.workspace.now()),
      key: values.key,
    });
    const sent = await answer(context.workspace, who, home, id, draft);
    report(context, sent);
    requestFollowerFor(context.env, sent.copies);
    if (sent.message.to === `@${who.name}`) await warnOwnMessage(context, home, id);
  },
});

/** An answer to one's own message comes back to oneself: rarely what was wanted. */
async function warnOwnMessage(context: Context, home: Home, id: MessageId): Promise<void> {
  const message = await home.journal.message(id);
  if (!message || message.to === `@${message.from}`) return;
  const again = `parley send ${shellWord(message.to)} "…" --reply-to ${shortId(id)}${context.asOption}`;
  context.note(
    `warning: ${shortId(id)} is your own message, so this answer went to you. To write to ${message.to}: ${again}`,
  );
}

/** Ids of ours. One that is complete may be of a message that is still on its way. */
const WHOLE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

const reactCommand = command({
  usage: 'react <id> <signal>',
  about:
    'Answers with one word. No model spends a turn on it. ' +
    `Signals: ${Object.keys(SIGNALS).join(', ')}, or one of your own, x-….`,
  options: {
    eta: { type: 'string', value: 'text', help: 'with queued or working: when, in your own words' },
    for: { type: 'string', value: '@agent', help: 'with done: this agent owes you no answer any more' },
    key: { type: 'string', value: 'key', help: 'react once per key' },
  },
  words: [2, 2],
  examples: [
    'parley react 1f2e3d4c working --eta "20 min"',
    'parley react 1f2e3d4c declined',
    'parley react 1f2e3d4c done --for @codex-1',
  ],
  async run(context: Context, values, [prefix = '', word = '']) {
    const signal = signalFrom(word);
    const { who, id, isHere } = await targetOf(context, prefix);
    await refuseForgedConsent(who, id, signal);
    const reacted = await react(context.workspace, who, id, {
      signal,
      ifUnknown: isHere ? 'refuse' : 'keep',
      ...(values.eta !== undefined && { eta: etaFrom(values.eta) }),
      ...(values.for !== undefined && { recipient: agentName(values.for) }),
      ...(values.key !== undefined && { key: keyFrom(values.key) }),
    });
    reportReaction(context, id, signal, reacted);
  },
});

/** A reaction can come before what it reacts to: then the whole id is needed. */
async function targetOf(context: Context, text: string): Promise<{ who: Who; id: MessageId; isHere: boolean }> {
  try {
    return { ...(await eventFrom(context, text)), isHere: true };
  } catch (error) {
    const isUnknown = error instanceof Refusal && error.code === 'not_found';
    if (!isUnknown || !WHOLE_ID.test(text)) throw error;
    return { who: await context.who(), id: MessageId.parse(text), isHere: false };
  }
}

function signalFrom(word: string): Signal {
  const signal = Signal.safeParse(word.toLowerCase());
  if (signal.success) return signal.data;
  const [near] = nearest(word, Object.keys(SIGNALS));
  const shown = word.replace(/\p{Cc}/gu, '?').slice(0, 40);
  throw new Refusal('invalid_request', `"${shown}" is not a signal; ${near ? `did you mean ${near}?` : signal.why}`);
}

function etaFrom(text: string): string {
  if (text.length <= 200 && !/\p{Cc}/u.test(text)) return text;
  throw new Refusal('invalid_request', '--eta is one line of at most 200 characters');
}

function keyFrom(text: string): SendKey {
  const key = SendKey.safeParse(text);
  if (key.success) return key.data;
  throw new Refusal('invalid_request', `--key: ${key.why}`);
}

/** What the reaction says of the message that it answers, and no more. */
function reportReaction(context: Context, id: MessageId, signal: Signal, { sent, disposition, final }: Reacted): void {
  if (context.json) return context.sayJson({ id, signal, reaction: sent?.message.id ?? null, disposition, final });
  const glyph = isKnownSignal(signal) ? `${SIGNALS[signal].glyph} ` : '';
  const state = disposition === null ? 'noted' : final ? disposition : `${disposition}, still owed`;
  context.say(`${glyph}${signal} on ${shortId(id)}: ${state}`);
}

/** Refuses to give or deny a person's consent by any other word than `approve` and `deny`. */
async function refuseForgedConsent({ name, home }: Who, id: MessageId, signal: Signal): Promise<void> {
  if (signal !== 'agree' && signal !== 'declined') return;
  if ((await home.directory.get(name))?.parley?.kind !== 'human') return;
  if ((await home.journal.message(id))?.parley?.intent !== 'approval') return;
  const verb = signal === 'agree' ? 'approve' : 'deny';
  throw new Refusal(
    'not_yours',
    `@${name} is a person and is asked for approval; a person answers with \`parley ${verb} ${shortId(id)}\``,
  );
}

const raiseCommand = command({
  usage: 'raise <id> <@agent> [note …]',
  about:
    'Assigns a message to an agent: sends a message of yours about it, which the agent must answer. Only a person can do this. ' +
    'The raised message itself does not change.',
  words: [2, Infinity],
  examples: ['parley raise 1f2e3d4c @codex', 'parley raise 1f2e3d4c @codex "this breaks the release"'],
  async run(context: Context, _values, [prefix = '', to = '', ...note]) {
    const { who, id } = await eventFrom(context, prefix);
    const { message, copies, first } = await raise(context.workspace, who, id, agentName(to), note.join(' '));
    if (context.json) return context.sayJson({ id: message.id, raised: id, first, copies });
    context.say(
      first ? `raised ${shortId(id)} to ${to}, as ${shortId(message.id)}` : `${shortId(id)} was raised to ${to} before`,
    );
  },
});

const withdrawCommand = command({
  usage: 'withdraw <id>',
  about: 'Takes back your message from every recipient who has not taken it yet, and says who has.',
  words: [1, 1],
  examples: ['parley withdraw 1f2e3d4c'],
  async run(context: Context, _values, [prefix = '']) {
    const who = await context.who();
    const { home, id } = await findMessage(context.workspace, prefix);
    const copies = await withdraw(who.name, home, id);
    const back = copies
      .filter((copy) => copy.state === 'stored' || (copy.state === 'held' && !copy.owner))
      .map((copy) => copy.mailbox);
    const taken = copies.filter((copy) => !back.includes(copy.mailbox)).map((copy) => copy.mailbox);
    if (context.json) return context.sayJson({ id, withdrawn: back, taken });
    if (back.length > 0) context.say(`withdrew ${shortId(id)} from ${back.map((name) => `@${name}`).join(', ')}`);
    if (copies.length === 0) context.say('there is no copy left to take back');
    if (taken.length > 0)
      context.say(`too late for ${taken.map((name) => `@${name}`).join(', ')}: already taken or settled`);
  },
});

/** One word that is an address: `@agent`, `#channel`, with its home (`%bch`) and perhaps a comma behind it. */
const ADDRESS = /^[@#][\p{L}\p{N}][\p{L}\p{N}._-]*(?:%[\w.-]+)?,?$/u;
/** A longer text is not repeated in a refusal. */
const TEXT_LIMIT = 200;

/** Refuses `send @a @b text` and `send @a,@b text`, and gives the line to type for each of the two meanings. */
function refuseSeveral(to: string, text: string[], options: Record<string, unknown>): void {
  const named = to.split(',').filter(Boolean);
  const end = text.findIndex((word) => !ADDRESS.test(word));
  const others = text.slice(0, end < 0 ? text.length : end);
  if (named.length < 2 && others.length === 0) return;
  const recipients = new Set([...named, ...others.map((word) => word.replace(/,$/, ''))]);
  const body = bodyWord(text.slice(others.length).join(' '));
  const each = [...recipients].map((one) => sendLine(one, body, options)).join(' && ');
  const [first = to] = named;
  const asText = others.length > 0 ? `; if ${others.join(' ')} is text: ${textLine(first, text, options)}` : '';
  throw new Refusal('invalid_request', `a message has one recipient; to write to each, type: ${each}${asText}`);
}

/** Quotes make one word of the text. An address alone would stay one word: it comes from stdin. */
function textLine(to: string, text: string[], options: Record<string, unknown>): string {
  const body = bodyWord(text.join(' '));
  return text.length > 1 ? sendLine(to, body, options) : `printf %s ${body} | ${sendLine(to, '-', options)}`;
}

function sendLine(to: string, body: string, options: Record<string, unknown>): string {
  return ['parley send', shellWord(to), body, ...optionWords(options)].join(' ');
}

function bodyWord(body: string): string {
  return body === '' || body.length > TEXT_LIMIT || /\p{Cc}/u.test(body) ? '"…"' : inShell(body);
}

/** The options as they were given. A key names one message: it is left out of lines that send several. */
function optionWords({ key: _key, 'first-tried': _tried, ...options }: Record<string, unknown>): string[] {
  return Object.entries(options).flatMap(([name, value]) => {
    const values = Array.isArray(value) ? (value as unknown[]) : [value];
    return values.map((one) => (one === true ? `--${name}` : `--${name} ${shellWord(String(one))}`));
  });
}

export const commands = {
  send: sendCommand,
  reply: replyCommand,
  react: reactCommand,
  raise: raiseCommand,
  withdraw: withdrawCommand,
};
