// Two real clients that `parley run` started, both idle: mail wakes them, and an answer comes back. Nobody touches a key.
import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { call, say } from './model/steps.ts';
import { aClaude, ClaudeSession } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { aTerminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const [claude, codex] = [client('claude'), client('codex')];
const DEADLINE = 200_000;
afterEach(closeAll);

interface Trace {
  copies: { mailbox: string; disposition: string | null; receipts: { step: string; evidence: { way?: string } }[] }[];
}

describe(`two idle clients${claude.why || codex.why}`, () => {
  const test = claude.why || codex.why ? it.skip : it;
  test(
    'talk: a question of one is answered in the window of the other, and the answer is read',
    async () => {
      const [left, right] = [opens(aModel([])), opens(aModel([]))];
      const place = await aPlace();
      const program = new Program(place.home);
      const parley = async (...args: string[]): Promise<string> => {
        const { out, err, code } = await program.withoutTerminal(args, { cwd: place.project });
        if (code !== 0) throw new Error(`parley ${args.join(' ')} ended with ${code}: ${err}`);
        return out;
      };
      await parley('init', 'me');
      const [cc, cx] = [aClaude({ place, model: left }), aCodex({ place, model: right })];
      const run = (env: Record<string, string>, words: string[]) =>
        aTerminal(place, [PARLEY, 'run', ...words], { env: live(env) });
      left.script(
        call('mcp__parley__send', { to: '@codex.project', text: 'Which port?' }),
        say('I asked.'),
        say('Noted.'),
      );
      right.script(say('It is 8080.'));
      const session = new ClaudeSession(cc, await run(cc.env, ['claude', '--allowedTools', 'mcp__parley__send']));
      await session.until('idle');
      await cx.ready(await run(cx.env, ['codex']));

      await parley('send', '@claude.project', 'Ask Codex for the port.', '--as', 'me');
      expect((await right.saw('Which port?')).count('Which port?')).toBe(1);
      expect((await left.saw('It is 8080.')).has('captured')).toBe(true);
      await session.until('idle');

      const history = JSON.parse(await parley('history', '--json')) as { id: string; body: string }[];
      for (const body of ['Ask Codex for the port.', 'Which port?', 'It is 8080.']) {
        const id = history.find((one) => one.body === body)?.id ?? '';
        await within(DEADLINE, async () => {
          const { copies } = JSON.parse(await parley('trace', id, '--json')) as Trace;
          return copies.every(({ receipts }) => receipts.some(({ step }) => step === 'shown'));
        });
      }
      await program.run(['down']);
    },
    DEADLINE * 2,
  );
});

describe(`a session that its user started, after \`parley install\`${claude.why}`, () => {
  claude.it('is woken when it is idle, and what it says in its window goes back', async () => {
    const model = opens(aModel([]));
    const place = await aPlace();
    const program = new Program(place.home);
    const code = aClaude({ place, model });
    const parley = async (...args: string[]): Promise<string> => {
      const { out, err, code: exit } = await program.withoutTerminal(args, { cwd: place.project });
      if (exit !== 0) throw new Error(`parley ${args.join(' ')} ended with ${exit}: ${err}`);
      return out;
    };
    await parley('install', 'claude');
    await parley('init', 'me');
    model.script(say('Here I am.'));
    const words = [code.program, '--permission-mode', 'default'];
    const session = new ClaudeSession(code, await aTerminal(place, words, { env: live(code.env) }));
    await session.until('idle');
    await parley('send', '@claude', 'Are you there?', '--as', 'me');
    expect((await model.saw('Are you there?')).count('Are you there?')).toBe(1);
    await within(DEADLINE, async () => (await parley('inbox', '--as', 'me')).includes('Here I am.'));
    await parley('self', 'uninstall', '--purge', '--yes');
    expect(existsSync(`${place.home}/.parley`)).toBe(false);
  });
});

/** The clients and `parley` on the search path, and the daemon may start. */
function live(env: Record<string, string>): Record<string, string> {
  const folders = [PARLEY, claude.program, codex.program].map((path) => path.slice(0, path.lastIndexOf('/')));
  return { ...env, PATH: `${env['PATH']}:${folders.join(':')}`, PARLEY_NO_DAEMON: '' };
}
