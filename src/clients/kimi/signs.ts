import type { ClientState } from '../../sessions/sign.ts';

/**
 * What Kimi 2.1 says with each event that its hooks can hear; `gone` takes the sign away. It does not say Stop after an interrupt. A
 * Stop hook that makes the turn go on says `busy` itself: no event follows. A Kimi that was given nothing yet has no session, and
 * so no sign.
 */
export const KIMI_EVENTS: Record<string, ClientState | 'gone'> = {
  SessionStart: 'starting',
  UserPromptSubmit: 'busy',
  TurnStarted: 'busy',
  PreToolUse: 'busy',
  PermissionRequest: 'dialog',
  PermissionResult: 'busy',
  PostToolUse: 'busy',
  PostToolUseFailure: 'busy',
  Stop: 'idle',
  StopFailure: 'idle',
  Interrupt: 'idle',
  SessionEnd: 'gone',
};
