// What the user answers to `parley run` is what the real Claude Code does with messages in bypass mode.
import { afterEach, describe, expect } from 'bun:test';
import { ClaudeLiveSessions } from '../../src/clients/claude/live.ts';
import { MessageId } from '../../src/core/names.ts';
import type { Attempt } from '../../src/core/ports/way-in.ts';
import { PARLEY } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { say } from './model/steps.ts';
import { aClaude, ClaudeSession } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { aTerminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const claude = client('claude');

afterEach(closeAll);

describe(`the question of \`parley run claude\` in bypass mode${claude.why}`, () => {
  claude.it.each([
    ['yes', { outcome: 'taken', step: 'shown' }],
    ['no', { outcome: 'offered', evidence: { because: expect.stringContaining('--inbound allow') } }],
  ])('decides what becomes of a message: %s', async (typed, became) => {
    expect(await messageAfter(typed)).toMatchObject(became);
  });
});

/** What becomes of a message for a session whose user typed this at the question. */
async function messageAfter(typed: string): Promise<Attempt | undefined> {
  const model = opens(aModel([say('done')]));
  const place = await aPlace();
  const code = aClaude({ place, model });
  const folders = [PARLEY, code.program].map((program) => program.slice(0, program.lastIndexOf('/')));
  const env = { ...code.env, PATH: `${folders.join(':')}:${code.env['PATH']}` };
  const terminal = await aTerminal(place, [PARLEY, 'run', 'claude', '--dangerously-skip-permissions'], { env });
  await terminal.shows('Type yes:');
  await terminal.type(typed);
  await terminal.keys('Enter');
  await new ClaudeSession(code, terminal).until('idle');
  const live = opens(new ClaudeLiveSessions(code.folder));
  const [session] = await live.list();
  const [way] = session ? live.ways(session) : [];
  const id = MessageId.parse(crypto.randomUUID());
  return way?.attempt([{ id, text: `[${id}] hello` }], new AbortController().signal);
}
