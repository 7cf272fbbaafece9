import type { StatefileTrouble } from '../../clients/opencode/statefile.ts';
import { isProcessAlive } from '../../platform/process.ts';
import { visibleLine } from '../../core/gate.ts';
import {
  StateFile,
  TROUBLES,
  StatefileWriter,
  readStatefile,
  statefilePath,
} from '../../clients/opencode/statefile.ts';
import { entryOf, takeWaiting } from './mail.ts';
import { isObject, readBytes, replaceDurably } from './files.ts';
import { jsonValue } from './json-list.ts';
import { mkdirSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { TEXT, command } from '../../core/command.ts';
import { userHome } from '../../platform/env.ts';
import { writeAll } from '../../platform/terminal.ts';
import { Refusal } from '../../core/refusal.ts';
import { healBroker, isSurelyEmpty } from './empty.ts';
import { JSON_FLAG, SESSION_ID } from './workspace.ts';
import type { C2c } from './workspace.ts';
import { codeOf } from '../../core/disk.ts';

/** A message in the plugin's spool. Entries of other programs are kept unchanged. */
type Spooled = Record<string, unknown>;

/**
 * Moves waiting mail into the plugin's spool, and answers with everything in the spool. The plugin removes a message when its client has it.
 *
 *   1  claim            after a crash here, the messages wait again
 *   2  write the spool  after a crash here, they wait again and are in the spool, too: the next merge finds the duplicates by their ids
 *   3  settle           the plugin has them
 *
 * Step 2 runs inside the transaction of step 3, when no other process can write the ledger. So two plugins with one spool do not overwrite each
 * other's mail.
 * spec: c2c#plugin
 */
const ocPluginDrainCommand = command({
  usage: 'oc-plugin drain-inbox-to-spool --spool-path <path> [--json]',
  options: {
    'spool-path': TEXT,
    'session-id': SESSION_ID,
    'broker-root': TEXT,
    json: JSON_FLAG,
  },
  async run(given: C2c, values) {
    const json = values.json ?? false;
    try {
      const path = values['spool-path'];
      if (!path) throw new Refusal('invalid_request', 'give the path of the spool: --spool-path <path>');
      const c2c = given.at(values['broker-root']);
      const session = c2c.session(values['session-id']);
      const spool = path.startsWith('/') ? path : `${c2c.cwd}/${path}`;
      const { messages, broken } = await drain(c2c, session, spool);
      if (broken !== undefined) c2c.note(`the spool was not a list of messages; it was moved to ${broken}`);
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
  await healBroker(c2c.home);
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

/** The messages in the spool. A file that is not a list of messages is renamed and kept. */
function readSpool(path: string): { messages: Spooled[]; broken?: string } {
  const bytes = readBytes(path);
  if (bytes === null || bytes.length === 0) return { messages: [] };
  const found = jsonValue(bytes.toString('utf8'));
  if (Array.isArray(found) && found.every(isObject)) return { messages: found };
  const broken = `${path}.broken-${Date.now()}`;
  renameSync(path, broken);
  return { messages: [], broken };
}

/** Removes messages with the same id: after a crash a message may already be in the spool. Messages without an id are all kept. */
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
    replaceDurably(path, `${JSON.stringify(messages)}\n`);
  } catch (error) {
    throw new Refusal(
      'storage_failed',
      `the spool ${path} cannot be written (${codeOf(error) ?? 'unknown'}); the mail still waits`,
    );
  }
}

/** `c2c oc-plugin stream-write-statefile`: writes the states that OpenCode sends on stdin to its statefile, until stdin ends. spec: statefile#stream */
const ocPluginStateCommand = command({
  usage: 'oc-plugin stream-write-statefile',
  async run(c2c: C2c) {
    const writer = new StatefileWriter(statefilePath({ ...c2c.env, HOME: userHome(c2c.env) }), eachOnce());
    // The last state may still wait to be written: write it before the end.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.once(signal, () => process.exit(writer.end() ? 0 : 1));
    }
    for await (const bytes of Bun.stdin.stream()) writer.take(bytes);
    if (!writer.end()) process.exitCode = 1;
  },
});

/** Prints each kind of trouble once. */
function eachOnce(): (kind: StatefileTrouble) => void {
  const known = new Set<StatefileTrouble>();
  return (kind) => {
    if (known.has(kind)) return;
    known.add(kind);
    try {
      writeAll(2, `warning: ${TROUBLES[kind]}\n`);
    } catch {
      // stderr is closed; writing the state must continue.
    }
  };
}

/** `c2c statefile`: prints the last state of an OpenCode. spec: statefile#command */
const statefileCommand = command({
  usage: 'statefile [--instance <name>] [--json]',
  options: { instance: { ...TEXT, short: 'i' }, json: JSON_FLAG },
  async run(c2c: C2c, { instance, json }) {
    const path = statefilePath({ ...c2c.env, HOME: userHome(c2c.env) }, instance);
    const text = readStatefile(path);
    if (text === null) {
      throw new Refusal(
        'not_found',
        `no OpenCode has left a state in ${path}; start OpenCode with the c2c plugin, or name another with --instance`,
      );
    }
    if (json) return writeAll(1, text);
    for (const line of wordsOf(text, path)) c2c.say(visibleLine(line, 500));
  },
});

function wordsOf(text: string, path: string): string[] {
  const file = StateFile.safeParse(jsonValue(text));
  if (!file.success) throw new Refusal('invalid_request', `${path} holds no state of an OpenCode; see it with --json`);
  const { state } = file.data;
  const { agent, tui_focus: focus, pendingQuestion: question } = state;
  const isGone = !isProcessAlive(state.opencode_pid);
  return [
    `session ${state.c2c_session_id}${state.c2c_alias === null ? '' : ` (${state.c2c_alias})`}, OpenCode process ${state.opencode_pid}${isGone ? ': it does not run any more, and this is its last state' : ''}`,
    `root session ${state.root_opencode_session_id ?? 'not known yet'}, ${idleness(agent.is_idle)}, in front: ${focus.ty}`,
    `${agent.turn_count} turns, ${agent.step_count} steps, last ${agent.last_step ? `${agent.last_step.event_type} at ${agent.last_step.at}` : 'nothing yet'}`,
    ...(agent.model_id === null ? [] : [`model ${agent.provider_id ?? '?'}/${agent.model_id}`]),
    ...(question === null ? [] : [`asks: ${question.text} (${question.options.join(', ')})`]),
    `said at ${state.state_last_updated_at}`,
  ];
}

function idleness(isIdle: boolean | null): string {
  if (isIdle === null) return 'not known whether idle';
  return isIdle ? 'idle' : 'busy';
}

/** Shows the usage if it is called without a subcommand. */
const ocPluginCommand = command({
  usage: 'oc-plugin drain-inbox-to-spool|stream-write-statefile …',
  words: [1, 1],
  async run(_c2c: C2c) {},
});

export const commands = {
  'oc-plugin': ocPluginCommand,
  'oc-plugin drain-inbox-to-spool': ocPluginDrainCommand,
  'oc-plugin stream-write-statefile': ocPluginStateCommand,
  statefile: statefileCommand,
};
