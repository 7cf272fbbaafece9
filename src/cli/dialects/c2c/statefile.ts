import { visibleLine } from '../../../delivery/gate.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { StateFile, readStatefile, statefilePath } from '../../../clients/opencode/statefile.ts';
import { isAlive } from '../../../sessions/process.ts';
import { userHome } from '../../env.ts';
import { writeAll } from '../../terminal.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';

/** `c2c statefile`: what an OpenCode last said of itself. spec: statefile#command */
export default c2cCommand({
  usage: 'statefile [--instance <name>] [--json]',
  options: { instance: { ...TEXT, short: 'i' }, json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, { instance, json }) {
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
  const file = StateFile.safeParse(parsed(text));
  if (!file.success) throw new Refusal('invalid_request', `${path} holds no state of an OpenCode; see it with --json`);
  const { state } = file.data;
  const { agent, tui_focus: focus, pendingQuestion: question } = state;
  const isGone = !isAlive(state.opencode_pid);
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

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
