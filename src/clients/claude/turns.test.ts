import { describe, expect, it } from 'bun:test';
import { TurnReader } from './turns.ts';

let count = 0;
const entry = (type: string, more: Record<string, unknown>): string =>
  JSON.stringify({
    parentUuid: null,
    isSidechain: false,
    type,
    ...more,
    uuid: `u${(count += 1)}`,
    timestamp: '2026-11-18T05:00:00.000Z',
  });
const prompt = (text: unknown, more: Record<string, unknown> = {}): string =>
  entry('user', {
    promptId: `p-${typeof text === 'string' ? text : 'parts'}`,
    message: { role: 'user', content: text },
    origin: { kind: 'human' },
    promptSource: 'typed',
    ...more,
  });
const says = (text: string, id = 'm1', more: Record<string, unknown> = {}): string =>
  entry('assistant', { message: { id, content: [{ type: 'text', text }], stop_reason: 'end_turn' }, ...more });
const calls = (id = 'm0'): string =>
  entry('assistant', {
    message: { id, content: [{ type: 'tool_use', id: 't', name: 'Bash' }], stop_reason: 'tool_use' },
  });
const result = entry('user', { message: { content: [{ type: 'tool_result', tool_use_id: 't', content: 'hi' }] } });
const over = entry('system', { subtype: 'turn_duration', durationMs: 1 });
const interrupted = entry('user', {
  message: { content: [{ type: 'text', text: '[Request interrupted by user for tool use]' }] },
});
const absorbed = (text: string): string =>
  entry('attachment', { attachment: { type: 'queued_command', prompt: text, origin: { kind: 'human' } } });
const MAIL = '[parley 286493cf02] Mail for @app. Only lines that begin with [parley 286493cf02] are Parley’s.\nhi';
const hooked = (...content: string[]): string =>
  entry('attachment', {
    attachment: { type: 'hook_additional_context', content, hookName: 'Stop', hookEvent: 'Stop', toolUseID: 'x' },
  });
const afterTool = entry('attachment', {
  attachment: { type: 'hook_additional_context', content: [MAIL], hookEvent: 'PostToolUse' },
});
const feedback = (text: string): string =>
  entry('user', { isMeta: true, message: { content: `Stop hook feedback:\n${text}` } });

/** A short notation: `+` a prompt, `=` its end, `&` a shared end. */
function read(...lines: string[]): string[] {
  const turns = new TurnReader();
  return lines
    .flatMap((line) => turns.take(line))
    .map((event) => {
      if (event.kind === 'prompt') return `+ ${event.text}`;
      return `${event.shared ? '&' : '='} ${event.how}: ${event.text}`;
    });
}

describe('the turns in a transcript of Claude Code', () => {
  it.each<[string, string[], string[]]>([
    ['an answer', [prompt('hi'), says('hello'), over], ['+ hi', '= done: hello']],
    ['an answer in several blocks', [prompt('hi'), says('one'), says('two'), over], ['+ hi', '= done: one\n\ntwo']],
    [
      'only the last message',
      [prompt('hi'), says('first', 'm0'), calls(), result, says('last'), over],
      ['+ hi', '= done: last'],
    ],
    ['no words at the end', [prompt('hi'), says('first', 'm0'), calls('m1'), over], ['+ hi', '= done: ']],
    ['an answer without an end', [prompt('hi'), says('hello')], ['+ hi']],
    ['an Esc in the middle', [prompt('hi'), calls(), result, interrupted], ['+ hi', '= interrupted: ']],
    [
      'an Esc before the first word',
      [prompt('hi'), prompt('again'), says('yes'), over],
      ['+ hi', '= interrupted: ', '+ again', '= done: yes'],
    ],
    [
      'an error of the model',
      [prompt('hi'), says('API Error: 500', 'e', { isApiErrorMessage: true }), over],
      ['+ hi', '= failed: API Error: 500'],
    ],
    [
      'an error that it got over',
      [prompt('hi'), says('API Error', 'e', { isApiErrorMessage: true }), says('ok'), over],
      ['+ hi', '= done: ok'],
    ],
    [
      'prompts that waited together',
      [prompt('a', { promptSource: 'queued' }), prompt('b', { promptSource: 'queued' }), says('both'), over],
      ['+ a', '+ b', '& done: both', '& done: both'],
    ],
    [
      'what was typed in the middle',
      [prompt('a'), calls(), absorbed('b'), result, says('both'), over],
      ['+ a', '+ b', '& done: both', '& done: both'],
    ],
    [
      'a picture',
      [prompt([{ type: 'text', text: '[Image #1] what?' }, { type: 'image' }]), says('a cat'), over],
      ['+ [Image #1] what?', '= done: a cat'],
    ],
    [
      'a prompt of an older version',
      [prompt('hi', { origin: undefined, promptSource: undefined }), says('hello'), over],
      ['+ hi', '= done: hello'],
    ],
    [
      'mail at its end',
      [prompt('hi'), says('hello'), hooked(MAIL), calls('m2'), result, says('thanks', 'm3'), over],
      ['+ hi', '= done: hello'],
    ],
    [
      'mail of c2c at its end',
      [prompt('hi'), says('hello'), feedback('c2c mail for app. Text inside'), says('thanks', 'm3'), over],
      ['+ hi', '= done: hello'],
    ],
    [
      'mail twice at its end',
      [prompt('hi'), says('hello'), hooked(MAIL), says('thanks', 'm2'), hooked(MAIL), says('again', 'm3'), over],
      ['+ hi', '= done: hello'],
    ],
    [
      'an Esc while the mail is answered',
      [prompt('hi'), says('hello'), hooked(MAIL), calls('m2'), result, interrupted],
      ['+ hi', '= done: hello'],
    ],
    [
      'a prompt while the mail is answered',
      [prompt('a'), says('one'), hooked(MAIL), calls('m2'), absorbed('b'), result, says('two', 'm3'), over],
      ['+ a', '+ b', '= done: one', '= done: two'],
    ],
    [
      'mail in the middle',
      [prompt('hi'), says('first', 'm0'), calls(), afterTool, result, says('last'), over],
      ['+ hi', '= done: last'],
    ],
    [
      'another hook at its end',
      [prompt('hi'), says('hello'), hooked('lint failed'), says('fixed', 'm2'), over],
      ['+ hi', '= done: fixed'],
    ],
    [
      'another hook that blocks its end',
      [prompt('hi'), says('hello'), feedback('lint failed'), says('fixed', 'm2'), hooked(MAIL), says('x', 'm3'), over],
      ['+ hi', '= done: fixed'],
    ],
    [
      'another hook before the mail',
      [prompt('hi'), says('hello'), hooked('lint failed'), hooked(MAIL), says('fixed, and thanks', 'm2'), over],
      ['+ hi', '= done: fixed, and thanks'],
    ],
    [
      'another hook after the mail',
      [prompt('hi'), says('hello'), hooked(MAIL), feedback('lint failed'), says('fixed, and thanks', 'm2'), over],
      ['+ hi', '= done: fixed, and thanks'],
    ],
    ['an end of a turn that was begun before', [says('hello'), over], []],
  ])('are read: %s', (_what, lines, events) => {
    expect(read(...lines)).toEqual(events);
  });

  it.each([
    ['what a hook or a peer said', prompt('x', { isMeta: true })],
    ['mail of another session', prompt('x', { origin: { kind: 'peer' }, promptSource: undefined })],
    ['a shell command', prompt('<bash-input>ls</bash-input>', { origin: undefined, promptSource: undefined })],
    ['a command', prompt('<command-name>/clear</command-name>', { origin: undefined, promptSource: undefined })],
    ['a summary', prompt('x', { isCompactSummary: true })],
    ['a subagent', prompt('x', { isSidechain: true })],
    ['what waits', '{"type":"queue-operation","operation":"enqueue","content":"x"}'],
    ['a request', '{"type":"api-request-blob","message":{"role":"user","type":"user","content":"x"}}'],
    ['half a line', prompt('x').slice(0, -2)],
    ['no object', 'null'],
  ])('do not begin with %s', (_what, line) => {
    expect(read(line)).toEqual([]);
  });
});
