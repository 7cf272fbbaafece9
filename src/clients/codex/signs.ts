import type { ClientState } from '../../sessions/sign.ts';

/**
 * What Codex 0.166 says with each event that its hooks can hear; `gone` takes the sign away. A Stop hook that makes the turn go on
 * says `busy` itself: no event follows. Codex may run its hooks in the environment of another window, so the sign belongs to the
 * `session_id` on the hook's standard input, and never to a pane or process that the environment names.
 */
export const CODEX_EVENTS: Record<string, ClientState | 'gone'> = {
  SessionStart: 'starting',
  UserPromptSubmit: 'busy',
  PreToolUse: 'busy',
  PermissionRequest: 'dialog',
  PostToolUse: 'busy',
  PreCompact: 'busy',
  Stop: 'idle',
  Interrupt: 'idle',
  SessionEnd: 'gone',
};
