import { mkdirSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { takeWaiting, entryOf } from '../../../protocols/c2c/mail.ts';
import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { codeOf } from '../../../storage/disk.ts';
import { readBytes, replaceFile } from '../../../protocols/c2c/files.ts';
import { writeAll } from '../../terminal.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { bringIntoOrder, isSurelyEmpty } from './emptiness.ts';

/** A message in the plugin's spool. What others wrote there is kept as it is. */
type Spooled = Record<string, unknown>;

/**
 * Moves what waits into the plugin's spool, and answers with everything that stands there. The plugin removes it when its client has it.
 *
 *   1  claim            killed here, they wait again
 *   2  write the spool  killed here, they wait again and stand in the spool too: the next merge knows them by their ids
 *   3  settle           they are the plugin's
 *
 * 2 is done inside 3, while nobody else can write the ledger: two plugins on one spool do not overwrite each other's mail.
 * spec: c2c#plugin
 */
export default c2cCommand({
  usage: 'oc-plugin drain-inbox-to-spool --spool-path <path> [--json]',
  options: {
    'spool-path': TEXT,
    'session-id': { ...TEXT, short: 's' },
    'broker-root': TEXT,
    json: { ...FLAG, short: 'j' },
  },
  words: [0, 0],
  async run(given, values) {
    const json = values.json ?? false;
    try {
      const path = values['spool-path'];
      if (!path) throw new Refusal('invalid_request', 'say where the spool is: --spool-path <path>');
      const c2c = given.at(values['broker-root']);
      const session = values['session-id'] === undefined ? c2c.session() : readSessionId(values['session-id']);
      const spool = path.startsWith('/') ? path : `${c2c.cwd}/${path}`;
      const { messages, broken } = await drain(c2c, session, spool);
      if (broken !== undefined) c2c.note(`the spool was no list of messages; it is kept as ${broken}`);
      const told = { ok: true, session_id: session, spool_path: spool, count: messages.length, messages };
      if (json) return c2c.sayJson({ ...told, ...(broken !== undefined && { broken }) });
      c2c.say(`${messages.length} in ${spool}`);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (json) writeAll(1, `${JSON.stringify({ ok: false, error: error.message })}\n`);
      throw error;
    }
  },
});

async function drain(c2c: C2c, session: string, path: string): Promise<{ messages: Spooled[]; broken?: string }> {
  if (isSurelyEmpty(c2c.root, session)) return readSpool(path);
  const name = await c2c.mailbox(session);
  await bringIntoOrder(c2c.home);
  let merged: { messages: Spooled[]; broken?: string } | undefined;
  const by = { by: 'c2c oc-plugin', drained_by: 'oc_plugin', agent: name, session, spool: path, pid: process.pid };
  await takeWaiting({ name, home: c2c.home }, by, (delivered) => ({
    show: () => {
      const before = readSpool(path);
      const added = delivered.map(({ message, attempt }) => ({ ...entryOf(name, message, attempt) }) satisfies Spooled);
      merged = { ...before, messages: withoutDoubles([...before.messages, ...added]) };
      writeSpool(path, merged.messages);
    },
    slow: false,
  }));
  return merged ?? readSpool(path);
}

/** One that is no list of messages is kept beside it. */
function readSpool(path: string): { messages: Spooled[]; broken?: string } {
  const bytes = readBytes(path);
  if (bytes === null || bytes.length === 0) return { messages: [] };
  const found = parsed(bytes.toString('utf8'));
  if (found) return { messages: found };
  const broken = `${path}.broken-${Date.now()}`;
  renameSync(path, broken);
  return { messages: [], broken };
}

function parsed(text: string): Spooled[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((one) => typeof one === 'object' && one !== null) ? value : null;
  } catch {
    return null;
  }
}

/** A message that was begun before may stand there already. Those without an id are never taken for each other. */
function withoutDoubles(messages: readonly Spooled[]): Spooled[] {
  const known = new Set<unknown>();
  return messages.filter(({ message_id: id }) => {
    if (typeof id !== 'string' || id === '') return true;
    const isNew = !known.has(id);
    known.add(id);
    return isNew;
  });
}

function writeSpool(path: string, messages: readonly Spooled[]): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    replaceFile(path, `${JSON.stringify(messages)}\n`);
  } catch (error) {
    throw new Refusal(
      'storage_failed',
      `the spool ${path} cannot be written (${codeOf(error) ?? 'unknown'}); what waits still waits`,
    );
  }
}
