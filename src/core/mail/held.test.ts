import { describe, expect, it } from 'bun:test';
import { AgentName } from '../names.ts';
import { heldLines } from './held.ts';

const ben = AgentName.parse('ben');

describe('the sender of a message that a guard holds back', () => {
  const copy = (injection: 'tool_mailbox' | 'digest', reason: 'loop' | 'ambient' = 'loop') => ({
    mailbox: ben,
    attention: { directedness: 'to_me', policy: 'must_not_respond', injection, reason } as const,
  });

  it.each(['tool_mailbox', 'digest'] as const)('is told in one line what gets through (%s)', (injection) => {
    const [line, ...more] = heldLines([copy(injection)], 'command');
    expect(line).toContain('@ben');
    expect(line).toContain('--intent question|blocker|assignment, or --urgent');
    expect(line).not.toContain('\n');
    expect(more).toEqual([]);
  });

  it('is told nothing about a message that is quiet for another reason', () => {
    expect(heldLines([copy('tool_mailbox', 'ambient')], 'command')).toEqual([]);
  });
});
