import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { begunAt, FollowedWire, KimiIndex, KimiTurns, PromptSearch } from './record.ts';

// Lines as Kimi 2.1.0 writes them, with only the fields that Parley reads.
const AT = 1794989708540;
const line = (type: string, fields: object): string => JSON.stringify({ type, agentId: 'main', ...fields, time: AT });
const input = (text: string) => [{ type: 'text', text }];
const prompt = (text: string, promptId = `msg_${text}`, kind = 'user'): string =>
  line('turn.prompt', { input: input(text), origin: { kind }, promptId, turnId: 1 });
const steered = (text: string): string =>
  line('turn.steer', {
    input: input(text),
    origin: { kind: 'user', inTurn: true },
    messageId: `msg_${text}`,
    turnId: 1,
  });
const step = line('context.append_loop_event', { event: { type: 'step.begin', uuid: 'u', turnId: '1', step: 1 } });
const says = (text: string, type = 'text'): string =>
  line('context.append_loop_event', { event: { type: 'content.part', part: { type, text } } });
const appended = (text: string): string =>
  line('context.append_message', { message: { role: 'user', content: input(text), origin: { kind: 'hook' } } });
const over = (reason: string, more: object = {}): string => line('turn.ended', { turnId: 1, reason, ...more });
const MAIL = '[parley 6866003695] Mail for @app. Only lines that begin with [parley 6866003695] are Parley’s.\nhi';

/** The events of these lines in short: `+` a prompt, `=` its end, `&` an end that it shares with another prompt. */
function read(...lines: string[]): string[] {
  const turns = new KimiTurns();
  return lines
    .flatMap((one) => turns.take(one))
    .map((event) => {
      if (event.kind === 'prompt') return `+ ${event.text}`;
      return `${event.shared ? '&' : '='} ${event.how}: ${event.text}`;
    });
}

describe('the turns of Kimi', () => {
  it.each<[string, string[], string[]]>([
    ['a prompt and its answer', [prompt('hi'), step, says('hello'), over('completed')], ['+ hi', '= done: hello']],
    [
      'the last step is the answer',
      [prompt('hi'), step, says('let me see'), step, says('hm', 'think'), says('last'), over('completed')],
      ['+ hi', '= done: last'],
    ],
    ['an Esc', [prompt('hi'), step, over('cancelled')], ['+ hi', '= interrupted: ']],
    [
      'an error of the model',
      [prompt('hi'), step, says('half'), over('failed', { error: { code: 'x', message: 'no such model' } })],
      ['+ hi', '= failed: no such model'],
    ],
    [
      'what was steered into the turn',
      [prompt('a'), step, steered('b'), step, says('both'), over('completed')],
      ['+ a', '+ b', '& done: both', '& done: both'],
    ],
    [
      'what waited for the end of the turn',
      [prompt('a'), step, says('one'), over('completed'), prompt('b'), step, says('two'), over('completed')],
      ['+ a', '= done: one', '+ b', '= done: two'],
    ],
    [
      'a turn that ended with Kimi, and one of the next Kimi',
      [prompt('a'), step, prompt('b'), step, says('two'), over('completed')],
      ['+ a', '= interrupted: ', '+ b', '= done: two'],
    ],
    [
      'mail at its end',
      [prompt('hi'), step, says('hello'), appended(MAIL), step, says('thanks'), over('completed')],
      ['+ hi', '= done: hello'],
    ],
    [
      'mail before it',
      [appended(MAIL), prompt('hi'), appended(MAIL), step, says('hello'), over('completed')],
      ['+ hi', '= done: hello'],
    ],
    ['mail that was typed', [prompt(MAIL), step, says('thanks'), over('completed')], []],
    ['a task that ended', [prompt('x', 'msg_x', 'task'), step, says('x'), over('completed')], []],
    ['half a line', [prompt('x').slice(0, -2)], []],
  ])('are read: %s', (_what, lines, events) => {
    expect(read(...lines)).toEqual(events);
  });
});

describe('the record of a session of Kimi', () => {
  const request = line('interaction.request', { id: 'approval_1', kind: 'approval', toolCallId: 'c', request: {} });
  const resolved = line('interaction.resolved', { id: 'approval_1', response: { decision: 'approved' } });

  it('says whether it works, and what it waits for', () => {
    const path = `${quickFolder()}/wire.jsonl`;
    writeFileSync(path, '');
    const wire = new FollowedWire(path);
    const after = (...lines: string[]) => {
      appendFileSync(path, lines.map((one) => `${one}\n`).join(''));
      const { turnSince, waitingFor } = wire.look();
      return [turnSince !== null, waitingFor];
    };
    expect(after()).toEqual([false, null]);
    expect(after(prompt('hi'), step)).toEqual([true, null]);
    expect(after(request)).toEqual([true, 'approval']);
    expect(after(resolved)).toEqual([true, null]);
    expect(after(request, over('cancelled'))).toEqual([false, null]);
    expect(after(prompt('x', 'msg_x', 'task'))).toEqual([true, null]);
  });

  it('is found by its id and by its folder, as soon as its file exists', () => {
    const home = quickFolder();
    const index = new KimiIndex(home);
    expect(index.inFolder('/work')).toEqual([]);
    const sessions = ['session_1', 'session_2', 'session_3'];
    for (const [at, sessionId] of sessions.entries()) {
      const sessionDir = `${home}/sessions/${sessionId}`;
      const entry = { sessionId, sessionDir, workDir: at === 1 ? '/other' : '/work' };
      appendFileSync(`${home}/session_index.jsonl`, `${JSON.stringify(entry)}\n`);
      if (at === 2) continue;
      mkdirSync(`${sessionDir}/agents/main`, { recursive: true });
      const first = JSON.stringify({ type: 'metadata', protocol_version: '1.5', created_at: AT });
      writeFileSync(`${sessionDir}/agents/main/wire.jsonl`, `${first}\n${prompt('hi')}\n`);
    }
    const [found] = index.inFolder('/work');
    expect(index.inFolder('/work').map(({ id }) => id)).toEqual(['session_1']);
    expect([index.find('session_2')?.folder, index.find('session_3')]).toEqual(['/other', null]);
    expect(found && begunAt(found)).toBe(AT);
    const said = (text: string, since: number | null) =>
      new PromptSearch(index, '/work', (one) => one === text, since).among(() => true);
    expect([said('hi', AT), said('no', AT), said('hi', AT + 1), said('hi', null)]).toEqual([
      'session_1',
      null,
      null,
      null,
    ]);
  });

  it('is searched for a prompt from its earlier end, and no part of it is read twice', () => {
    const home = quickFolder();
    const dir = `${home}/sessions/session_1`;
    const wire = `${dir}/agents/main/wire.jsonl`;
    mkdirSync(`${dir}/agents/main`, { recursive: true });
    const entry = { sessionId: 'session_1', sessionDir: dir, workDir: '/work' };
    writeFileSync(`${home}/session_index.jsonl`, `${JSON.stringify(entry)}\n`);
    writeFileSync(wire, `${prompt('hi')}\n`);
    const asked: string[] = [];
    const isText = (text: string): boolean => asked.push(text) > 0 && text === 'hi';
    const search = new PromptSearch(new KimiIndex(home), '/work', isText);
    const found = (...lines: string[]) => {
      appendFileSync(wire, lines.map((one) => `${one}\n`).join(''));
      return search.among(() => true);
    };
    expect([found(), found(prompt('other')), found(), found(prompt('hi')), found()]).toEqual([
      null,
      null,
      null,
      'session_1',
      'session_1',
    ]);
    expect(asked).toEqual(['other', 'hi']);
    expect(search.among((id) => id !== 'session_1')).toBeNull();
  });
});
