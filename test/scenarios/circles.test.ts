import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { Program } from '../support/program.ts';

interface Sent {
  id: string;
  copies: { attention: { policy: string; injection: string; reason: string } }[];
  held?: string[];
}

/** What an obliging agent says to everything that it gets to read. It is no mere thanks: it has words of its own. */
const OBLIGING = 'Thank you so much, working with you on this has been wonderful. Until next time!';
const GETS_THROUGH = '--intent question|blocker|assignment, or --urgent';

/** What the model of this agent gets to see at this event of its client. */
async function shownTo(parley: Program, agent: string, event = 'PostToolUse'): Promise<string> {
  const input = { session_id: agent, cwd: parley.home, hook_event_name: event, tool_name: 'Bash', prompt: 'go on' };
  return (await parley.run(['hook', 'claude', '--as', agent], { stdin: JSON.stringify(input) })).out;
}

describe('two agents that answer each other’s thanks by plain sends', () => {
  it('are stopped: after three echoes the next one waits quietly, and its sender is told [C2A-D10]', async () => {
    const parley = await new Program().init('alice', 'bob');
    const sent = [await parley.json<Sent>(['send', '@bob', 'the parser is done', '--as', 'alice'])];
    let shown = '';
    while (sent.length < 12) {
      const [reader, writer] = sent.length % 2 ? ['bob', 'alice'] : ['alice', 'bob'];
      shown = await shownTo(parley, reader);
      if (!shown.includes(sent.length === 1 ? 'the parser is done' : OBLIGING)) break;
      sent.push(await parley.json<Sent>(['send', `@${writer}`, OBLIGING, '--as', reader]));
    }
    expect(sent).toHaveLength(6);
    expect(sent.at(-1)).toMatchObject({
      copies: [{ attention: { reason: 'loop', policy: 'must_not_respond', injection: 'tool_mailbox' } }],
      held: [expect.stringContaining(GETS_THROUGH)],
    });
    expect(shown).toBe('');
    // It is kept, it can be read, and nobody is said to have replied.
    const [last] = await parley.json<{ body: string; thread?: string }[]>(['inbox'], { as: 'alice' });
    expect(last?.body).toBe(OBLIGING);
    expect(last?.thread).toBeUndefined();
    const { out } = await parley.run(['send', '@bob', OBLIGING, '--as', 'alice']);
    expect(out.trim().split('\n')).toEqual([expect.stringContaining('stored'), expect.stringContaining(GETS_THROUGH)]);
  });

  it('are heard again as soon as one of them says something else, in plain words [C2A-D10]', async () => {
    const parley = await new Program().init('alice', 'bob');
    for (let turn = 0; turn < 8; turn += 1) {
      const [from, to] = turn % 2 ? ['bob', '@alice'] : ['alice', '@bob'];
      await parley.run(['send', to, OBLIGING, '--as', from]);
    }
    const text = 'stop, the production site is down, roll back';
    const news = await parley.json<Sent>(['send', '@bob', text, '--as', 'alice']);
    expect(news.copies).toMatchObject([{ attention: { policy: 'must_respond', injection: 'buffered' } }]);
    expect(news.held).toBeUndefined();
    expect(await shownTo(parley, 'bob')).toContain(text);
  });
});

describe('a long exchange of agents', () => {
  const lines = (
    JSON.parse(readFileSync(`${import.meta.dir}/../fixtures/storms/paraphrase.json`, 'utf8')) as { lines: string[] }
  ).lines;

  it('wakes nobody any more, and each text is shown in full when a turn of the reader begins [C2A-D10]', async () => {
    const parley = await new Program().init('alice', 'bob');
    const say = (turn: number, ...more: string[]) =>
      parley.json<Sent>([
        'send',
        turn % 2 ? '@alice' : '@bob',
        lines[turn] ?? '',
        '--as',
        turn % 2 ? 'bob' : 'alice',
        ...more,
      ]);
    for (let turn = 0; turn < 48; turn += 1) expect((await say(turn)).held).toBeUndefined();
    await parley.run(['drain', '--as', 'bob']);
    const held = await say(48);
    expect(held.copies).toMatchObject([{ attention: { policy: 'must_not_respond', injection: 'digest' } }]);
    expect(held.held).toEqual([expect.stringContaining(GETS_THROUGH)]);
    // Not in the middle of a turn, and not as a reason to begin another one.
    expect(await shownTo(parley, 'bob', 'PostToolUse')).toBe('');
    expect(await shownTo(parley, 'bob', 'Stop')).toBe('');
    const shown = await shownTo(parley, 'bob', 'UserPromptSubmit');
    expect(shown).toContain(lines[48] ?? '?');
    expect(await shownTo(parley, 'bob', 'PostToolUse')).toBe('');
    expect(await shownTo(parley, 'bob', 'UserPromptSubmit')).toBe('');
    expect(await parley.run(['owe', '--as', 'bob'])).toMatchObject({
      out: expect.not.stringContaining(held.id.slice(0, 8)),
    });
    await say(49);
    const urgent = await say(50, '--urgent');
    expect(urgent.held).toBeUndefined();
    expect(await shownTo(parley, 'bob', 'PostToolUse')).toContain(lines[50] ?? '?');
  }, 120_000);
});
