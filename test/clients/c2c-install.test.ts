// What `c2c install` leaves behind, as the real clients read it.
import { afterEach, describe, expect } from 'bun:test';
import { readFileSync } from 'node:fs';
import { Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { say, type Step } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');

afterEach(closeAll);

describe(`\`c2c install claude\`, in Claude Code${claude.why}`, () => {
  claude.it(
    'starts the server of the project, which registers its alias and joins the lounge [C2C-8, C2C-31b]',
    async () => {
      const { place, model, c2c } = await aMachine([say('one')]);
      const code = aClaude({ place, model });
      await c2c(['install', 'claude', '--alias', 'ada']);
      const { env } = (JSON.parse(readFileSync(`${place.project}/.mcp.json`, 'utf8')) as Servers).mcpServers.c2c;
      const session = await code.interactive();
      await within(60_000, async () => (await c2c(['list', '--json'])).out.includes('"ada"'));
      const { sessionId } = await session.until('idle');
      // It registers first, and joins then.
      await within(60_000, async () => (await c2c(['rooms', 'list', '--json'])).out.includes('"ada"'));
      const rows = JSON.parse((await c2c(['list', '--json'])).out) as Record<string, unknown>[];
      expect(rows).toMatchObject([{ alias: 'ada', session_id: sessionId, alive: true }]);
      expect((await c2c(['rooms', 'members', 'swarm-lounge', '--json'])).out).toContain('ada');
      expect(env['C2C_MCP_BROKER_ROOT']).toStartWith(place.home);
    },
  );
});

describe(`\`c2c install claude --uninstall\`, after Claude Code has used its files${claude.why}`, () => {
  claude.it('takes out what is ours, and leaves what Claude Code wrote since [C2C-40]', async () => {
    const { place, model, c2c } = await aMachine([say('one')]);
    const code = aClaude({ place, model });
    await c2c(['install', 'claude', '--global']);
    await code.headless('work');
    const state = (): Record<string, unknown> =>
      JSON.parse(readFileSync(`${place.home}/.claude.json`, 'utf8')) as Record<string, unknown>;
    const { mcpServers, ...others } = state();
    expect(mcpServers).toHaveProperty('c2c');
    await c2c(['install', 'claude', '--uninstall']);
    expect(state()).toEqual(others);
    expect(JSON.parse(readFileSync(`${code.folder}/settings.json`, 'utf8'))).toEqual({
      skipDangerousModePermissionPrompt: true,
    });
  });
});

interface Servers {
  mcpServers: { c2c: { env: Record<string, string> } };
}

async function aMachine(steps: Step[]) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const program = new Program(place.home);
  const c2c = async (args: string[]): Promise<Run> => {
    const run = await program.run(args, { name: 'c2c', cwd: place.project });
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${run.code}: ${run.err}`);
    return run;
  };
  return { model, place, c2c };
}
