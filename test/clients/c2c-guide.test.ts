// The lines of docs/guides/c2c.md with Claude Code and OpenCode, to the mail in the request to the model. Codex and Kimi have files of their own.
import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { call, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { aManaged, SOCKET } from './support/managed.ts';
import { anOpenCode, seedPluginFolder } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { client } from './support/where.ts';

const [claude, opencode] = [client('claude'), client('opencode')];
afterEach(closeAll);

describe(`the guide's lines with Claude Code${claude.why}`, () => {
  claude.it('wake it, and the mail that it fetches is in its next request to the model', async () => {
    const place = await aPlace();
    const model = opens(aModel([call('mcp__c2c__poll_inbox', {}), say('read it')]));
    const code = aClaude({ place, model });
    const c2c = typing(place, code.env);
    await c2c('install', 'claude', '--alias', 'storm');
    await c2c('start', 'claude', '-n', 'storm', '--bin', code.program, '--', '--dangerously-skip-permissions');
    await expectMail(c2c, model, 'storm');
    await c2c('stop', 'storm');
  });
});

describe(`the guide's lines with OpenCode${opencode.why}`, () => {
  opencode.it('bring the mail into its request to the model while it is idle', async () => {
    const place = await aPlace();
    const model = opens(aModel([say('hello to you'), say('read it'), say('read this too')]));
    const code = anOpenCode({ place, model });
    seedPluginFolder(`${place.project}/.opencode`);
    const c2c = typing(place, code.env);
    await c2c('install', 'opencode', '--alias', 'storm');
    const program = new Program(place.home, { ...code.env, ...SOCKET });
    const terminal = await aManaged(place, program, 'opencode', '-n', 'storm', '--bin', code.program);
    await code.ready(terminal);
    await terminal.submit('hello');
    await terminal.shows('hello to you');
    await expectMail(c2c, model, 'storm');
    const { state } = JSON.parse(await c2c('statefile', '--instance', 'storm', '--json')) as State;
    await c2c('stop', 'storm');
    // Goes on with that conversation: nothing is typed into it.
    await c2c('start', 'opencode', '-n', 'storm', '-s', state.root_opencode_session_id, '--bin', code.program);
    await c2c('send', 'storm', 'CANARY is main green?', '--from', 'ember');
    await model.saw('CANARY is main green?');
    await c2c('stop', 'storm');
  });
});

interface State {
  state: { root_opencode_session_id: string };
}

type C2c = (...args: string[]) => Promise<string>;

async function expectMail(c2c: C2c, model: Model, to: string): Promise<void> {
  await c2c('send', to, 'CANARY is main red?', '--from', 'ember');
  const asked = await model.saw('CANARY is main red?');
  expect(asked.where('CANARY')[0]?.text).toContain('ember');
}

function typing(place: Place, env: Record<string, string>): C2c {
  const program = new Program(place.home, { ...env, ...SOCKET });
  return async (...args) => {
    const { out, err, code } = await program.run(args, { name: 'c2c', cwd: place.project });
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
}
