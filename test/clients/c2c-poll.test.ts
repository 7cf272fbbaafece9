// Polling as real clients do it: the model calls the tool of the server that `c2c install` wrote down.
import { afterEach, describe, expect } from 'bun:test';
import { rmSync } from 'node:fs';
import { Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { call, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { anOpenCode, seedPluginFolder } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { client } from './support/where.ts';

const [claude, opencode] = [client('claude'), client('opencode')];

afterEach(closeAll);

describe(`poll_inbox in Claude Code${claude.why}`, () => {
  claude.it('puts what waits before the model as the result of its call [C2C-34]', async () => {
    const { place, model, c2c } = await aMachine('mcp__c2c__poll_inbox');
    const code = aClaude({ place, model });
    await c2c('install', 'claude', '--global');
    const id = crypto.randomUUID();
    await c2c('register', 'ada', '--session-id', id);
    await c2c('send', 'ada', 'CANARY the build is red', '--from', 'bob');
    expect(await code.headless('work', ['--session-id', id])).toMatchObject({ code: 0 });
    await expectPolled(model, () => c2c('peek-inbox', '--session-id', id, '--json'));
  });
});

describe(`poll_inbox in OpenCode${opencode.why}`, () => {
  opencode.it('puts what waits before the model as the result of its call [C2C-34]', async () => {
    const { place, model, c2c } = await aMachine('c2c_poll_inbox');
    const openCode = anOpenCode({ place, model });
    seedPluginFolder(`${place.project}/.opencode`);
    await c2c('install', 'opencode', '--alias', 'ocean');
    // Its plugin would bring it before it is asked for.
    rmSync(`${openCode.config}/plugins/c2c.ts`);
    const id = 'opencode-project';
    await c2c('register', 'ocean', '--session-id', id);
    await c2c('send', 'ocean', 'CANARY the build is red', '--from', 'bob');
    expect(await openCode.run('work')).toMatchObject({ code: 0 });
    await expectPolled(model, () => c2c('peek-inbox', '--session-id', id, '--json'));
  });
});

async function expectPolled(model: Model, peek: () => Promise<string>): Promise<void> {
  const kinds = new Set(model.last.where('CANARY the build is red').map(({ kind }) => kind));
  expect([...kinds]).toEqual(['tool result']);
  expect(await peek()).toBe('[]\n');
}

/** A machine whose model calls this tool. */
async function aMachine(tool: string) {
  const model = opens(aModel([call(tool, {}), say('I read it')]));
  const place: Place = await aPlace();
  const program = new Program(place.home);
  const c2c = async (...args: string[]): Promise<string> => {
    const { out, err, code } = await program.run(args, { name: 'c2c', cwd: place.project });
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  return { place, model, c2c };
}
