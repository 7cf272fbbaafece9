import { OpenCodeState } from '../../protocol/statefile.ts';
import type { ClientState, Sign, Signs } from '../../sessions/sign.ts';
import { isRunning as runs } from '../../sessions/running.ts';
import { readStatefile } from '../../sessions/statefile.ts';

/** The plugin says every 15 seconds that its state still holds. Whoever missed that three times may be doing anything. */
const FRESH_MS = 45_000;

export interface OpenCodeSignsOptions {
  /** Where the plugin of this OpenCode leaves its state. */
  path: string;
  /** Several OpenCodes without a name share one place: only the state of this session counts. */
  sessionId: string;
  isRunning?: (pid: number) => boolean;
  now?: () => number;
}

/** What OpenCode's own events say of its root session, as the plugin publishes it. spec: statefile#signs */
export class OpenCodeSigns implements Signs {
  constructor(readonly options: OpenCodeSignsOptions) {}

  async latest(): Promise<Sign | null> {
    const { path, sessionId, isRunning = runs, now = Date.now } = this.options;
    const state = stateIn(readStatefile(path));
    if (state === null || state.c2c_session_id !== sessionId || !isRunning(state.opencode_pid)) return null;
    const at = Date.parse(state.state_last_updated_at);
    const [said, detail] = now() - at > FRESH_MS ? (['unknown', 'its plugin is silent'] as const) : reading(state);
    return { state: said, at, source: 'event', pid: state.opencode_pid, detail };
  }
}

/** First what would take an Enter for an answer; then what is known; idle only if nothing speaks against it. */
function reading(state: OpenCodeState): [ClientState, string] {
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
