import { describe, expect, it } from 'bun:test';
import { hookClient } from '../clients/clients.ts';
import type { HookClient } from './client.ts';
import { HookEvent, isCompaction, momentOf, proofIn } from './hook-event.ts';
import type { Proof } from './hook-event.ts';

const [claude, codex, kimi, gemini] = [
  hookClient('claude'),
  hookClient('codex'),
  hookClient('kimi'),
  hookClient('gemini'),
];

type Fields = Record<string, unknown>;

/** `UserPromptSubmit p1` is that event with this prompt id; for Codex it is the turn's. */
function event(client: HookClient, text: string, fields: Fields = {}): HookEvent {
  const [hook_event_name, id] = text.split(' ');
  return HookEvent.parse({
    hook_event_name,
    ...(id && { [client === codex ? 'turn_id' : 'prompt_id']: id }),
    ...fields,
  });
}

const TABLE: [client: HookClient, printed: string, next: string, proof: Proof][] = [
  [claude, 'UserPromptSubmit p1', 'PostToolUse p1', 'asked'],
  [claude, 'UserPromptSubmit p1', 'PostToolUseFailure p1', 'asked'],
  [claude, 'UserPromptSubmit p1', 'Stop p1', 'asked'],
  [claude, 'UserPromptSubmit p1', 'PreCompact p1', 'asked'],
  [claude, 'UserPromptSubmit p1', 'Notification p1', 'asked'],
  [claude, 'UserPromptSubmit p1', 'UserPromptSubmit p2', 'not asked'],
  [claude, 'UserPromptSubmit p1', 'SessionEnd p1', 'not asked'],
  [claude, 'UserPromptSubmit p1', 'SessionStart', 'not asked'],
  [claude, 'UserPromptSubmit p1', 'UserPromptSubmit p1', 'same moment'],
  [claude, 'UserPromptSubmit', 'UserPromptSubmit', 'not asked'],
  [claude, 'PostToolUse p1', 'PostToolUse p1', 'asked'],
  [claude, 'PostToolUse p1', 'UserPromptSubmit p2', 'not asked'],
  [claude, 'Stop p1', 'PostToolUse p1', 'asked'],
  [claude, 'Stop p1', 'Stop p1', 'asked'],
  [claude, 'Stop p1', 'UserPromptSubmit p2', 'not asked'],
  [codex, 'UserPromptSubmit t1', 'PostToolUse t1', 'asked'],
  [codex, 'UserPromptSubmit t1', 'UserPromptSubmit t2', 'not asked'],
  [codex, 'Stop t1', 'Stop t1', 'asked'],
  [kimi, 'UserPromptSubmit', 'Stop', 'asked'],
  [kimi, 'UserPromptSubmit', 'UserPromptSubmit', 'not asked'],
  [kimi, 'Stop', 'UserPromptSubmit', 'asked'],
  [kimi, 'Stop', 'SessionStart', 'not asked'],
  [gemini, 'BeforeAgent', 'AfterTool', 'asked'],
  [gemini, 'BeforeAgent', 'AfterAgent', 'asked'],
  [gemini, 'BeforeAgent', 'BeforeAgent', 'not asked'],
  [gemini, 'AfterAgent', 'AfterTool', 'asked'],
];

describe('a text that was printed', () => {
  for (const [client, printed, next, proof] of TABLE) {
    it(`in ${client.name} at ${printed}, then ${next}: ${proof}`, () => {
      expect(proofIn(client, momentOf(event(client, printed)), event(client, next))).toBe(proof);
    });
  }

  it('is not proven by another hook of the same tool call', () => {
    const before = momentOf(event(claude, 'PreToolUse p1', { tool_use_id: 't1' }));
    expect(proofIn(claude, before, event(claude, 'PostToolUse p1', { tool_use_id: 't1' }))).toBe('same moment');
    expect(proofIn(claude, before, event(claude, 'PostToolUse p1', { tool_use_id: 't2' }))).toBe('asked');
  });

  it('is proven by a session that starts again after a compaction', () => {
    const compacted = event(claude, 'SessionStart', { source: 'compact' });
    expect(isCompaction(compacted)).toBe(true);
    expect(proofIn(claude, momentOf(event(claude, 'UserPromptSubmit p1')), compacted)).toBe('asked');
    expect(isCompaction(event(claude, 'SessionStart', { source: 'resume' }))).toBe(false);
  });
});
