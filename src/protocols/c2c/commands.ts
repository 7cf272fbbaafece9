import { countFrom, durationFrom, minuteOf } from '../../core/time.ts';
import { readObjects } from './files.ts';
import { hasHeldMail, healBroker, isEmptyInbox, isInOrder, isSurelyEmpty } from './empty.ts';
import { envelope } from './envelope.ts';
import { entryOf, sendTo, sendToAll, takeWaiting } from './mail.ts';
import type { Stored } from './mail.ts';
import { archivedJson, pruneArchives, readArchive } from './archive.ts';
import type { Archived } from './archive.ts';
import { FLAG, TEXT, TEXTS, command } from '../../core/command.ts';
import { lineForModel } from '../../core/gate.ts';
import type { Delivered } from '../../core/mail/deliver.ts';
import { bodyFrom } from '../../platform/input.ts';
import { VERSION } from '../../platform/program.ts';
import { isSlow, writeAll } from '../../platform/terminal.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { RegistryFile, whyHeld } from './registry.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';

const sendCommand = command({
  usage: 'send <alias|#room> <text …|-> [--from <alias>] [--fail|--blocking|--urgent] [--deferrable] [--json]',
  options: {
    from: { ...TEXT, short: 'F' },
    json: JSON_FLAG,
    fail: FLAG,
    blocking: FLAG,
    urgent: FLAG,
    deferrable: FLAG,
    ephemeral: FLAG,
    'no-warn-substitution': FLAG,
  },
  words: [1, Infinity],
  async run(c2c: C2c, values, [to = '', ...words]) {
    if (values.ephemeral) {
      throw new Refusal(
        'not_in_this_version',
        'every message is kept in the archive until it is pruned, so none can be ephemeral; leave --ephemeral out',
      );
    }
    const tags = (['fail', 'blocking', 'urgent'] as const).filter((tag) => values[tag]);
    if (tags.length > 1) throw new Refusal('invalid_request', `give only one of --${tags.join(' and --')}`);
    const from = await c2c.writer(values.from);
    const body = await bodyFrom(words, c2c.workspace.bodyLimit);
    const stored = await sendTo(c2c, from, to, { body, tag: tags[0], deferrable: values.deferrable });
    if (values.json) return c2c.sayJson(stored);
    c2c.say(`ok -> ${stored.to_alias} (from ${stored.from_alias})${remarks(stored)}`);
  },
});

function remarks({ message_id, stored_for, queued_offline, recipient_dnd, compacting_warning }: Stored): string {
  const facts = [
    `stored as ${message_id.slice(0, 8)}`,
    stored_for && `for ${stored_for.join(', ')}`,
    queued_offline && 'does not run now: it waits',
    recipient_dnd && 'wants no disturbance now',
    compacting_warning,
  ];
  return `: ${facts.filter(Boolean).join('; ')}`;
}

/** Sends one message to every session that may run. Leaves out sessions that have ended, because the sender did not name them. */
const sendAllCommand = command({
  usage: 'send-all <text …|-> [--exclude <alias,…>] [--from <alias>] [--json]',
  options: {
    from: { ...TEXT, short: 'F' },
    exclude: { ...TEXTS, short: 'x' },
    json: JSON_FLAG,
    'no-warn-substitution': FLAG,
  },
  words: [1, Infinity],
  async run(c2c: C2c, values, words) {
    const from = await c2c.writer(values.from);
    const body = await bodyFrom(words, c2c.workspace.bodyLimit);
    const result = await sendToAll(
      c2c,
      from,
      body,
      (values.exclude ?? []).flatMap((list) => list.split(',')),
    );
    if (values.json) return c2c.sayJson(result);
    const skipped = result.skipped.map(({ alias, reason }) => `${alias} (${reason})`);
    c2c.say(
      `stored for ${result.sent_to.length > 0 ? result.sent_to.join(', ') : 'nobody'}${skipped.length > 0 ? `; left out: ${skipped.join(', ')}` : ''}`,
    );
  },
});

/** Takes all waiting mail. Most polls find none, so they only read the few files that prove it, and do not open the ledger. */
const pollInboxCommand = command({
  usage: 'poll-inbox [--json] [--session-id <id>] [--peek]',
  options: {
    json: JSON_FLAG,
    'session-id': SESSION_ID,
    peek: { ...FLAG, short: 'p' },
    'broker-root': TEXT,
    // Accepted for scripts of the original, without effect: every poll works on the files, and none waits for a server.
    'file-fallback': FLAG,
    timeout: TEXT,
  },
  async run(given: C2c, values) {
    const c2c = given.at(values['broker-root']);
    const session = inboxOf(c2c, values['session-id']);
    const json = values.json ?? false;
    if (values.peek) return peek(c2c, session, json);
    const taken = isSurelyEmpty(c2c.root, session) ? 0 : await take(c2c, session, json);
    if (taken === 0) sayNothingWaits(c2c, json);
  },
});

/**
 * The session whose inbox is read. If the session of the environment is not registered, this is the session that has the environment's alias,
 * unless that session may still run: then only that session may read its mail.
 */
function inboxOf(c2c: C2c, named: string | undefined): string {
  const own = c2c.session(named);
  const alias = c2c.env['C2C_MCP_AUTO_REGISTER_ALIAS'];
  if (named !== undefined || !alias) return own;
  const registry = new RegistryFile(c2c.root);
  const row = registry.rows().some(({ session_id }) => session_id === own) ? undefined : registry.rowOf(alias);
  if (!row || whyHeld(row, registry.isAlive(row), Date.now()) !== null) return own;
  c2c.note(`note: session ${own} is not registered, so this is the mail of ${row.alias}, session ${row.session_id}`);
  return row.session_id;
}

async function take(c2c: C2c, session: string, json: boolean): Promise<number> {
  const name = await c2c.mailbox(session);
  await healBroker(c2c.home);
  const by = { by: 'c2c poll-inbox', drained_by: 'cli_poll', agent: name, session, pid: process.pid };
  const taken = await takeWaiting({ name, home: c2c.home }, by, (delivered) => {
    const text = renderTaken(name, delivered, json);
    return { show: () => writeAll(1, text), slow: isSlow(1, text) };
  });
  await c2c.home.directory.seen(name);
  return taken.length;
}

function sayNothingWaits(c2c: C2c, json: boolean): void {
  c2c.say(json ? '[]' : '(no messages)');
}

const peekInboxCommand = command({
  usage: 'peek-inbox [--json] [--session-id <id>]',
  options: { json: JSON_FLAG, 'session-id': SESSION_ID, 'broker-root': TEXT },
  async run(given: C2c, values) {
    const c2c = given.at(values['broker-root']);
    const session = c2c.session(values['session-id']);
    await peek(c2c, session, values.json ?? false);
  },
});

/** Shows waiting mail and takes none. First finishes the unfinished sends and takes of dead processes, whose mail waits too. spec: c2c#taking */
export async function peek(c2c: C2c, session: string, json: boolean): Promise<void> {
  const isHealed = isInOrder(c2c.root) && !hasHeldMail(c2c.root);
  const entries = isHealed && isEmptyInbox(c2c.root, session) ? [] : await waitingIn(c2c, session, isHealed);
  if (json) return c2c.sayJson(entries);
  if (entries.length === 0) return c2c.say('(no messages)');
  c2c.say(entries.map((entry) => envelope(entry)).join('\n'));
}

async function waitingIn(c2c: C2c, session: string, isHealed: boolean) {
  const reader = await c2c.mailbox(session);
  if (!isHealed) await healBroker(c2c.home);
  const mail = await c2c.home.mailboxes.peek(reader);
  return mail.map(({ message }) => entryOf(reader, message));
}

const LIMIT = 50;
const KEPT = '30d';

const historyCommand = command({
  usage: 'history [--limit <n>] [--json] [--session-id <id>] | history --prune [--older-than 30d] [--dry-run]',
  options: {
    limit: { ...TEXT, short: 'l' },
    json: JSON_FLAG,
    'session-id': SESSION_ID,
    'broker-root': TEXT,
    prune: FLAG,
    'older-than': TEXT,
    'dry-run': FLAG,
  },
  async run(given: C2c, values) {
    const c2c = given.at(values['broker-root']);
    const json = values.json ?? false;
    if (values.prune) return prune(c2c, values['older-than'] ?? KEPT, values['dry-run'] ?? false, json);
    if (values['older-than'] !== undefined || values['dry-run']) {
      throw new Refusal('invalid_request', '--older-than and --dry-run need --prune');
    }
    const session = c2c.session(values['session-id']);
    const newestFirst = readArchive(c2c.root, session, countFrom(values.limit, LIMIT)).toReversed();
    if (json) return c2c.sayJson(newestFirst.map(archivedJson));
    if (newestFirst.length === 0) return c2c.say('(nothing was taken yet)');
    c2c.say(newestFirst.map(line).join('\n'));
  },
});

/** Removes old mail from the archives. The ledger, which has the receipts, is not touched: it has its own retention. spec: c2c#archive */
async function prune(c2c: C2c, span: string, isDry: boolean, json: boolean): Promise<void> {
  const before = (Date.now() - durationFrom(span)) / 1000;
  const count = pruneArchives(c2c.root, before, isDry ? 'count' : 'remove');
  const told = { pruned: isDry ? 0 : count, would_prune: isDry ? count : 0, before, dry_run: isDry };
  if (json) return c2c.sayJson(told);
  const what = `${count} ${count === 1 ? 'message' : 'messages'} taken before ${new Date(before * 1000).toISOString()}`;
  c2c.say(isDry ? `would remove ${what}` : `removed ${what}`);
}

function line({ entry, drainedAt }: Archived): string {
  return `[${minuteOf(entry.ts || drainedAt)}] <${lineForModel(entry.from_alias, 64)}> ${lineForModel(entry.content, 2000)}`;
}

const deadLetterCommand = command({
  usage: 'dead-letter [--limit <n>] [--json]',
  options: { limit: { ...TEXT, short: 'l' }, json: JSON_FLAG },
  async run(c2c: C2c, { limit = '50', json }) {
    if (!/^\d{1,6}$/.test(limit)) throw new Refusal('invalid_request', `--limit takes a number, not "${limit}"`);
    const letters = readObjects(`${c2c.root}/dead-letter.jsonl`).slice(-Number(limit));
    if (json) return c2c.sayJson(letters);
    if (letters.length === 0) return c2c.say('no dead letters');
    for (const { message } of letters) {
      const { from_alias: from = '?', to_alias: to = '?', content = '' } = (message ?? {}) as Record<string, unknown>;
      c2c.say(
        `${lineForModel(String(from), 64)} → ${lineForModel(String(to), 130)}  ${lineForModel(String(content), 120)}`,
      );
    }
  },
});

const versionCommand = command({
  usage: 'version [--json]',
  options: { json: JSON_FLAG },
  async run(c2c: C2c, { json }) {
    if (json) return c2c.sayJson({ program: 'parley', version: VERSION });
    c2c.say(`${VERSION} (c2c by Parley)`);
  },
});

/** The text of taken messages: JSON for programs, or envelopes for models. */
function renderTaken(reader: AgentName, delivered: readonly Delivered[], json: boolean): string {
  const entries = delivered.map(({ message, attempt }) => entryOf(reader, message, attempt));
  if (json) return `${JSON.stringify(entries)}\n`;
  return entries.map((entry) => `${envelope(entry)}\n`).join('');
}

export const commands = {
  send: sendCommand,
  'send-all': sendAllCommand,
  'poll-inbox': pollInboxCommand,
  'peek-inbox': peekInboxCommand,
  history: historyCommand,
  'dead-letter': deadLetterCommand,
  version: versionCommand,
};
