import { OpenCodeState, readStatefile } from './statefile.ts';
import type { Activity, ClientState, StateReader } from '../../sessions/client-state.ts';
import { isProcessAlive } from '../../platform/process.ts';
import type { ReadComposer, Screen } from '../../sessions/terminal.ts';

/** The plugin sends a heartbeat every 15 seconds. After three missed heartbeats the state is unknown. */
const FRESH_MS = 45_000;

export interface OpenCodeStateOptions {
  /** The statefile of this OpenCode's plugin. */
  path: string;
  /** OpenCodes without an instance name share one statefile: only the state of this session counts. */
  sessionId: string;
  isRunning?: (pid: number) => boolean;
  now?: () => number;
}

/** The state of OpenCode's root session, which the plugin publishes from OpenCode's own events. spec: statefile#signs */
export class OpenCodeStateReader implements StateReader {
  constructor(readonly options: OpenCodeStateOptions) {}

  async latest(): Promise<ClientState | null> {
    const { path, sessionId, isRunning = isProcessAlive, now = Date.now } = this.options;
    const state = stateIn(readStatefile(path));
    if (state === null || state.c2c_session_id !== sessionId || !isRunning(state.opencode_pid)) return null;
    const at = Date.parse(state.state_last_updated_at);
    const [said, detail] = now() - at > FRESH_MS ? (['unknown', 'its plugin is silent'] as const) : reading(state);
    return { state: said, at, source: 'event', pid: state.opencode_pid, detail };
  }
}

/** Checks dialogs first, because Enter would answer them. Idle only if no sign contradicts. */
function reading(state: OpenCodeState): [Activity, string] {
  const { agent, tui_focus: focus, prompt, pendingQuestion } = state;
  if (pendingQuestion !== null || focus.ty === 'question') return ['dialog', 'it asks a question'];
  if (focus.ty === 'permission') return ['dialog', 'it asks for a permission'];
  if (focus.ty === 'menu') return ['dialog', 'a menu is open'];
  if (agent.is_idle === false) return ['busy', 'its root session works'];
  if (agent.is_idle === null) return ['unknown', 'it did not say yet whether it is idle'];
  if (prompt.has_text === true) return ['unknown', 'somebody is writing a prompt'];
  if (focus.ty === 'prompt') return ['idle', 'its root session is idle'];
  return ['unknown', 'it did not say what is in front'];
}

function stateIn(text: string | null): OpenCodeState | null {
  try {
    const file: unknown = JSON.parse(text ?? 'null');
    const state = typeof file === 'object' && file !== null && 'state' in file ? file.state : null;
    const parsed = OpenCodeState.safeParse(state);
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

/**
 * The composer of OpenCode 1.18 is a block of rows that begin with `┃`, and `╹▀▀▀` below them. Its last row names the agent and the model. A
 * question has no such end. A panel may be beside the block.
 */
export const openCodeComposer: ReadComposer = ({ lines, bright, cursor }) => {
  const end = lines.findLastIndex((line) => /^\s*╹▀{8}/.test(line));
  if (end < 0) return lines.some((line) => QUESTION.test(line)) ? 'dialog' : 'unknown';
  if (lines.slice(end + 1).some((line) => /\besc (again to )?interrupt\b/.test(line))) return 'busy';
  if (lines.slice(end).some((line) => QUESTION.test(line))) return 'dialog';
  const left = (lines[end] ?? '').indexOf('╹');
  const right = (lines[end] ?? '').lastIndexOf('▀') + 1;
  const top = lines.findLastIndex((line, row) => row < end && line[left] !== '┃') + 1;
  const rows = bright.slice(top, end - 1).map((line) => line.slice(left + 1, right).trim());
  const inside = cursor.row >= top && cursor.row < end - 1 && cursor.column === left + 3;
  return rows.length > 0 && inside && rows.every((row) => row === '') ? 'empty' : 'draft';
};

/** Does the window show no conversation yet? Only then the composer has a hint. */
export function isOpenCodeHome({ lines }: Screen): boolean {
  return lines.some((line) => /┃\s+Ask anything/.test(line));
}

const QUESTION = /△ Permission required|Allow once\s+Allow always/;

/** Commands of OpenCode that may have a terminal but are not a window. */
const NO_WINDOW = ['run', 'serve', 'web', 'acp', 'attach', 'auth', 'models', 'upgrade', 'export', 'import', 'session'];

/** Is a process with these arguments and this executable a window of OpenCode? */
export function isOpenCodeWindow([, second = '']: readonly string[], file: string): boolean {
  return file.endsWith('/opencode') && !NO_WINDOW.includes(second);
}
