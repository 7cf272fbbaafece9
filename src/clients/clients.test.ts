import { describe, expect, it } from 'bun:test';
import { framed } from '../delivery/client.ts';
import type { Form, HookClient } from '../delivery/client.ts';
import { HOOK_CLIENTS, hookClient } from './clients.ts';
import { HookEvent, isSubagent } from '../delivery/hook-event.ts';

const [claude, codex, kimi, gemini] = [
  hookClient('claude'),
  hookClient('codex'),
  hookClient('kimi'),
  hookClient('gemini'),
];

/** Clients × events, as measured. A dash: output at this event does not reach the model. */
const TABLE: [client: HookClient, event: string, form: Form | '-'][] = [
  [claude, 'SessionStart', 'context'],
  [claude, 'UserPromptSubmit', 'context'],
  [claude, 'PreToolUse', 'context'],
  [claude, 'PostToolUse', 'context'],
  [claude, 'PostToolUseFailure', 'context'],
  [claude, 'PostToolBatch', 'context'],
  [claude, 'Stop', 'context'],
  [claude, 'SubagentStop', '-'],
  [claude, 'SessionEnd', '-'],
  [codex, 'SessionStart', 'context'],
  [codex, 'UserPromptSubmit', 'context'],
  [codex, 'PreToolUse', 'context'],
  [codex, 'PostToolUse', 'context'],
  [codex, 'Stop', 'block'],
  [codex, 'PreModelRequest', '-'],
  [kimi, 'UserPromptSubmit', 'plain'],
  [kimi, 'Stop', 'stderr'],
  [kimi, 'SessionStart', '-'],
  [kimi, 'PostToolUse', '-'],
  [kimi, 'PreToolUse', '-'],
  [gemini, 'SessionStart', 'context'],
  [gemini, 'BeforeAgent', 'context'],
  [gemini, 'AfterTool', 'context'],
  [gemini, 'AfterAgent', 'deny'],
  [gemini, 'BeforeTool', '-'],
];

for (const [client, event, form] of TABLE) {
  it(`${client.name} takes a text at ${event} as ${form}`, () => {
    expect(client.events[event] ?? '-').toBe(form);
  });
}

describe('a form', () => {
  it.each([
    ['context', 1, '{"hookSpecificOutput":{"hookEventName":"E","additionalContext":"a\\n\\"b\\""}}\n', 0],
    ['block', 1, '{"decision":"block","reason":"a\\n\\"b\\""}\n', 0],
    ['deny', 1, '{"decision":"deny","reason":"a\\n\\"b\\""}\n', 0],
    ['plain', 1, 'a\n"b"\n', 0],
    ['stderr', 2, 'a\n"b"\n', 2],
  ] as const)('%s', (form, fd, text, exit) => {
    expect(framed(form, 'E', 'a\n"b"')).toEqual({ fd, text, exit });
  });

  it('blocks nothing but the end of a turn: after a tool it would replace the tool’s own output', () => {
    for (const client of HOOK_CLIENTS) {
      const blocking = Object.entries(client.events).filter(([, form]) => form !== 'context' && form !== 'plain');
      expect(blocking.map(([event]) => event).filter((event) => !client.endsTurn.includes(event))).toEqual([]);
    }
  });
});

describe('a client', () => {
  it('that Parley does not know is refused with a list of the known ones', () => {
    expect(() => hookClient('vim')).toThrow(
      'no client with hooks is called "vim"; use one of claude, codex, kimi, gemini',
    );
  });

  it('without hooks is refused with what to do instead', () => {
    expect(() => hookClient('opencode')).toThrow('OpenCode runs no hooks');
  });

  it('has settings to paste that name only events at which it listens, its session begins or is compacted', () => {
    for (const client of HOOK_CLIENTS) {
      const named = [...client.settings('sh hook').matchAll(/^ {2}"(\w+)":|^event = "(\w+)"/gm)].map(
        ([, a, b]) => a ?? b ?? '',
      );
      expect(named.length).toBeGreaterThan(2);
      expect(
        named.filter((event) => !(event in client.events) && !['SessionStart', 'PostCompact'].includes(event)),
      ).toEqual([]);
    }
  });
});

describe('an event', () => {
  it('of a subagent is distinguished from one of the agent itself', () => {
    const of = (agent_id?: string): boolean => isSubagent(claude, HookEvent.parse({ agent_id }));
    expect([of(), of(''), of('main'), of('a4d2c8f1')]).toEqual([false, false, false, true]);
  });

  it('is read however odd its fields are', () => {
    expect(HookEvent.parse({ hook_event_name: 7, session_id: null, cwd: '/x', prompt: [{}] })).toMatchObject({
      cwd: '/x',
    });
  });
});
