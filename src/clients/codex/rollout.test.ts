import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { endOfRollout, newestConversation, placeIn, readRollout, rolloutOf } from './rollout.ts';

const AT = '2026-11-18T04:54:23.933Z';
const ms = Date.parse(AT);
const event = (payload: object): string => line({ type: 'event_msg', payload });
const line = (entry: object): string => `${JSON.stringify({ timestamp: AT, ordinal: 1, ...entry })}\n`;
const begun = (turn_id: string): string => event({ type: 'task_started', turn_id, started_at: 1 });
const asked = (turn_id: string, text: string, client_id?: string): string =>
  event({
    type: 'item_completed',
    turn_id,
    item: { type: 'UserMessage', id: 'u', client_id, content: [{ type: 'text', text, text_elements: [] }] },
  });
const done = (turn_id: string, last_agent_message: string | null, more: object = {}): string =>
  event({ type: 'task_complete', turn_id, last_agent_message, ...more });
const said = (turn_id: string, text: string): string =>
  event({
    type: 'item_completed',
    turn_id,
    item: { type: 'AgentMessage', id: 'm', content: [{ type: 'Text', text }] },
  });
const hooked = (turn_id: string, ...texts: string[]): string =>
  event({
    type: 'item_completed',
    turn_id,
    item: { type: 'HookPrompt', id: 'h', fragments: texts.map((text) => ({ text, hook_run_id: 'stop:3' })) },
  });
const MAIL = '[parley 6866003695] Mail for @app. Only lines that begin with [parley 6866003695] are Parley’s.\nhi';
const aborted = event({ type: 'turn_aborted', turn_id: 't1', reason: 'interrupted' });

describe('a rollout of Codex', () => {
  it('has the prompts of a turn with their keys, and the last answer [CCC-157]', () => {
    const said = { type: 'AgentMessage', id: 'm', content: [{ type: 'Text', text: 'let me see' }] };
    const path = aRollout(
      line({ type: 'session_meta', payload: { id: 'x', base_instructions: { text: '"type":"task_started"' } } }),
      begun('t1'),
      line({ type: 'response_item', payload: { type: 'message', role: 'user', content: [{ text: 'one' }] } }),
      asked('t1', 'one', 'k-1'),
      event({ type: 'item_completed', turn_id: 't1', item: said }),
      asked('t1', 'by hand', 'a-window'),
      asked('t1', 'by nobody'),
      done('t1', 'the answer'),
    );
    expect(readRollout({ path, offset: 0 }).events).toEqual([
      { kind: 'prompt', turn: 't1', text: 'one', at: ms, key: 'k-1' },
      { kind: 'prompt', turn: 't1', text: 'by hand', at: ms, key: 'a-window' },
      { kind: 'prompt', turn: 't1', text: 'by nobody', at: ms },
      { kind: 'end', turn: 't1', how: 'done', text: 'the answer', at: ms, shared: true },
    ]);
  });

  it('keeps the fact that a second prompt joined the turn when reading continues', () => {
    const path = aRollout(begun('t1'), asked('t1', 'one', 'k-1'), asked('t1', 'by hand'));
    const { next } = readRollout({ path, offset: 0 });
    appendFileSync(path, done('t1', 'both'));
    expect(readRollout(placeIn(JSON.stringify(next)) ?? next).events).toMatchObject([{ text: 'both', shared: true }]);
  });

  it.each<[string, string[], string]>([
    ['mail', [said('t1', 'one'), hooked('t1', MAIL), said('t1', 'thanks'), done('t1', 'thanks')], 'one'],
    [
      'mail twice',
      [said('t1', 'one'), hooked('t1', MAIL), said('t1', 'x'), hooked('t1', MAIL), said('t1', 'y'), done('t1', 'y')],
      'one',
    ],
    ['mail, and then an Esc,', [said('t1', 'one'), hooked('t1', MAIL), aborted], 'one'],
    ['mail, and then the end of its daemon,', [said('t1', 'one'), hooked('t1', MAIL), begun('t2')], 'one'],
    ['another hook', [said('t1', 'one'), hooked('t1', 'lint failed'), said('t1', 'two'), done('t1', 'two')], 'two'],
    [
      'another hook beside the mail',
      [said('t1', 'one'), hooked('t1', MAIL, 'lint failed'), said('t1', 'two'), done('t1', 'two')],
      'two',
    ],
    [
      'another hook after the mail',
      [said('t1', 'one'), hooked('t1', MAIL), said('t1', 'x'), hooked('t1', 'lint failed'), done('t1', 'two')],
      'two',
    ],
  ])('tells the answer to the prompt where %s prolonged the turn', (_what, lines, text) => {
    const path = aRollout(begun('t1'));
    let place = { path, offset: 0 };
    const events = ['', ...lines].flatMap((one) => {
      appendFileSync(path, one);
      const { events: found, next } = readRollout(placeIn(JSON.stringify(place)) ?? place);
      place = next;
      return found;
    });
    expect(events).toEqual([{ kind: 'end', turn: 't1', how: 'done', text, at: ms }]);
  });

  it('of an older Codex has its prompts in another form', () => {
    const path = aRollout(
      begun('t1'),
      event({ type: 'user_message', client_id: 'k-1', message: 'one', images: [] }),
      event({ type: 'agent_message', message: 'two' }),
      done('t1', 'two'),
    );
    expect(readRollout({ path, offset: 0 }).events).toEqual([
      { kind: 'prompt', turn: 't1', text: 'one', at: ms, key: 'k-1' },
      { kind: 'end', turn: 't1', how: 'done', text: 'two', at: ms },
    ]);
  });

  it.each([
    ['interrupted', event({ type: 'turn_aborted', turn_id: 't1', reason: 'interrupted' }), 'interrupted', ''],
    ['failed', done('t1', null, { error: { message: 'no such model' } }), 'failed', 'no such model'],
    ['done without a word', done('t1', null), 'done', ''],
    ['cut off by the next one', begun('t2'), 'failed', 'Codex ended before its turn did'],
  ] as const)('tells that a turn was %s', (_how, end, how, text) => {
    const { events } = readRollout({ path: aRollout(begun('t1'), end), offset: 0 });
    expect(events).toEqual([{ kind: 'end', turn: 't1', how, text, at: ms }]);
  });

  it('is read from a place, in complete lines, and the place knows the open turn', () => {
    const path = aRollout(begun('t1'));
    const first = readRollout({ path, offset: 0 });
    expect(first.next.turn).toBe('t1');
    const rest = event({ type: 'user_message', message: 'zwölf' }) + done('t1', 'ok');
    appendFileSync(path, rest.slice(0, 30));
    expect(readRollout(first.next)).toEqual({ events: [], next: first.next });
    appendFileSync(path, rest.slice(30));
    const place = placeIn(JSON.stringify(first.next));
    const { events, next } = readRollout(place ?? endOfRollout(path));
    expect(events).toMatchObject([
      { kind: 'prompt', turn: 't1', text: 'zwölf' },
      { kind: 'end', turn: 't1', text: 'ok' },
    ]);
    expect(next).toEqual(endOfRollout(path));
  });

  it.each([
    ['is not there', undefined],
    [
      'holds what nobody understands',
      'no JSON "type":"task_started"\n{"type":"event_msg","payload":"task_complete"}\n[]\n',
    ],
    [
      'holds entries without their fields',
      line({ type: 'event_msg', payload: { type: 'item_completed', item: 'UserMessage' } }),
    ],
  ])('that %s has no events', (_what, text) => {
    const path = text === undefined ? `${temporaryHome()}/none` : aRollout(text);
    expect(readRollout({ path, offset: 0 }).events).toEqual([]);
  });

  it.each(['', 'x', '{}', '{"path":1,"offset":0}', '{"path":"a","offset":"0"}'])('has no place called %j', (text) => {
    expect(placeIn(text)).toBeNull();
  });
});

describe('the conversations of a Codex home', () => {
  it('are found by their id', () => {
    const { home, conversation } = aHome();
    const path = conversation('17', 'a', '/project');
    conversation('18', 'aa', '/project');
    expect([rolloutOf(home, 'a'), rolloutOf(home, 'b')]).toEqual([path, null]);
  });

  it('include the last used one of a folder that may be taken [CCC-176]', () => {
    const { home, conversation } = aHome();
    const older = conversation('16', 'a', '/project');
    conversation('17', 'b', '/project');
    conversation('18', 'c', '/elsewhere');
    conversation('18', 'd', '/project', { source: 'exec' });
    conversation('18', 'e', '/project', { thread_source: 'subagent' });
    utimesSync(older, new Date(), new Date(Date.now() + 1000));
    expect(newestConversation(home, '/project', () => true)).toBe('a');
    expect(newestConversation(home, '/project', (id) => id !== 'a')).toBe('b');
    expect(newestConversation(home, '/nowhere', () => true)).toBeNull();
    expect(newestConversation(temporaryHome(), '/project', () => true)).toBeNull();
  });
});

function aRollout(...lines: string[]): string {
  const path = `${temporaryHome()}/rollout`;
  writeFileSync(path, lines.join(''));
  return path;
}

function aHome() {
  const home = temporaryHome();
  const conversation = (day: string, id: string, cwd: string, more: object = {}): string => {
    const folder = `${home}/sessions/2026/11/${day}`;
    mkdirSync(folder, { recursive: true });
    const path = `${folder}/rollout-2026-11-${day}T00-00-00-${id}.jsonl`;
    writeFileSync(
      path,
      line({ type: 'session_meta', payload: { id, cwd, source: 'vscode', thread_source: 'user', ...more } }),
    );
    return path;
  };
  return { home, conversation };
}
