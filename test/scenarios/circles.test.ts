import { describe, expect, it } from 'bun:test';
import { Program } from '../support/program.ts';

interface Sent {
  id: string;
  copies: { attention: { policy: string; injection: string; reason: string } }[];
}

/** What an obliging agent says to everything that it gets to read. It is no mere thanks: it has words of its own. */
const OBLIGING = 'Thank you so much, working with you on this has been wonderful. Until next time!';

describe('two agents that answer each other’s thanks by plain sends', () => {
  /** What the model of this agent gets to see at the next tool call. */
  async function shownTo(parley: Program, agent: string): Promise<string> {
    const event = { session_id: agent, cwd: parley.home, hook_event_name: 'PostToolUse', tool_name: 'Bash' };
    return (await parley.run(['hook', 'claude', '--as', agent], { stdin: JSON.stringify(event) })).out;
  }

  it('are stopped: the seventh is only knocked for, so that no model reads it and thanks for it again', async () => {
    const parley = await new Program().init('alice', 'bob');
    const sent = [await parley.json<Sent>(['send', '@bob', 'the parser is done', '--as', 'alice'])];
    let shown = '';
    while (sent.length < 12) {
      const [reader, writer] = sent.length % 2 ? ['bob', 'alice'] : ['alice', 'bob'];
      shown = await shownTo(parley, reader);
      if (!shown.includes(sent.length === 1 ? 'the parser is done' : OBLIGING)) break;
      sent.push(await parley.json<Sent>(['send', `@${writer}`, OBLIGING, '--as', reader]));
    }
    expect(sent).toHaveLength(7);
    expect(sent.at(-1)?.copies).toMatchObject([
      { attention: { reason: 'loop', policy: 'must_not_respond', injection: 'notify' } },
    ]);
    expect(shown).toContain(sent.at(-1)?.id.slice(0, 8) ?? '?');
    expect(shown).not.toContain('wonderful');
    // It is kept, it can be read, and nobody is said to have replied.
    const [last] = await parley.json<{ body: string; thread?: string }[]>(['inbox'], { as: 'bob' });
    expect(last?.body).toBe(OBLIGING);
    expect(last?.thread).toBeUndefined();
  });

  it('are heard again as soon as one of them says something new', async () => {
    const parley = await new Program().init('alice', 'bob');
    for (let turn = 0; turn < 8; turn += 1) {
      const [from, to] = turn % 2 ? ['bob', '@alice'] : ['alice', '@bob'];
      await parley.run(['send', to, OBLIGING, '--as', from]);
    }
    const news = await parley.json<Sent>(['send', '@bob', 'the build fails in src/parser.ts:118', '--as', 'alice']);
    expect(news.copies).toMatchObject([{ attention: { policy: 'must_respond', injection: 'buffered' } }]);
    expect(await shownTo(parley, 'bob')).toContain('src/parser.ts:118');
  });
});
