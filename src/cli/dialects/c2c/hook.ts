import { instanceAbove } from '../../../protocols/c2c/instance.ts';
import { existsSync, readFileSync } from 'node:fs';
import { HookEvent } from '../../../clients/hook-event.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { storageTrouble } from '../../../storage/disk.ts';
import { writeAll } from '../../../platform/terminal.ts';
import type { C2c } from '../../../protocols/c2c/workspace.ts';
import { command, TEXT } from '../../../core/command.ts';
import { isEmptyInbox, isHeld } from '../../../protocols/c2c/commands.ts';
import { forgetOldSessions, hookFolder, HookSession } from './hook-session.ts';
import type { Bound } from './hook-session.ts';
import { brokerRoot } from '../../../protocols/c2c/broker-root.ts';

/**
 * What the hook's script calls when something may wait: the event of the client stands on stdin. Whatever goes wrong, the client's turn
 * goes on: one line on stderr, and 0. spec: c2c#hook
 */
export default command({
  usage: 'hook [<client>]',
  options: { client: TEXT },
  words: [0, 1],
  async run(c2c: C2c, values, [client = values.client ?? 'claude']) {
    try {
      await answer(c2c, client, eventIn(readFileSync(0, 'utf8')));
    } catch (error) {
      complain(error);
    }
  },
});

/** Says what waits for the session of this event. */
async function answer(c2c: C2c, client: string, event: HookEvent): Promise<void> {
  const folder = hookFolder(c2c.env);
  const session = HookSession.open(folder, event.session_id);
  const bound = await readerOf(c2c, client, event, session);
  if (!bound) return;
  if (session && !session.bound()) forgetOldSessions(folder);
  session?.bind(bound);
  const { root, sessionId } = bound;
  session?.lookAtOnce();
  if (!isEmptyInbox(root, sessionId) || isHeld(root)) {
    const { sayTo } = await import('./hook-words.ts');
    await sayTo(c2c.at(root), bound, session, client, event);
  }
  // Mail in somebody's hand may come back, and a session may be registered by now.
  session?.lookAgain(Infinity);
}

/**
 * Which inbox this is about. The session that the event names is believed first: the environment may be inherited from another one.
 * Where it was registered is known from `bindSession`; otherwise its folder tells, and the environment names a session that was
 * started under a name of its own. In Codex the environment is that of any window, so it is not asked; a managed session is known by its
 * process, and comes before what was bound, because it may have resumed a thread of another session. Null if nothing names one.
 */
async function readerOf(
  c2c: C2c,
  client: string,
  event: HookEvent,
  session: HookSession | null,
): Promise<Bound | null> {
  const managed = client === 'codex' ? instanceAbove(c2c.env) : null;
  if (managed) return { root: managed.broker_root, sessionId: managed.session_id, sure: true };
  const known = session?.bound();
  if (known?.sure) return known;
  const root = brokerRoot(c2c.env, c2c.env['CLAUDE_PROJECT_DIR'] || event.cwd || c2c.cwd);
  const told = client === 'codex' ? [] : [c2c.env['C2C_MCP_SESSION_ID'], c2c.env['C2C_SESSION_ID']];
  const names = [session?.id, ...told].filter((name) => !!name);
  const [first] = names;
  if (first === undefined) return null;
  const { broker } = c2c.at(root);
  for (const sessionId of existsSync(root) ? names : []) {
    if (sessionId && (await broker.session(sessionId))) return { root, sessionId, sure: true };
  }
  // It has started again since it was bound, and nothing names another session.
  if (known && (await c2c.at(known.root).broker.session(known.sessionId))) return { ...known, sure: true };
  return { root, sessionId: first, sure: false };
}

function eventIn(text: string): HookEvent {
  try {
    const event = HookEvent.safeParse(JSON.parse(text));
    if (event.success) return event.data;
  } catch {
    // Said below.
  }
  throw new Refusal('invalid_request', 'the event on stdin is no JSON object; nothing was taken');
}

function complain(thrown: unknown): void {
  const error = storageTrouble(thrown);
  const [first = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  const line = first.replace(/\p{Cc}/gu, '?').slice(0, 300);
  try {
    writeAll(2, `c2c hook: ${error instanceof Refusal ? line : `internal error, please report it: ${line}`}\n`);
  } catch {
    // Nobody listens there either.
  }
}
