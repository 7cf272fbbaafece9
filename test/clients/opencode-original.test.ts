// The plugin of the original c2c in the real OpenCode, with our `c2c` in the place of its own. That plugin is no part of
// this project: PEER_C2C_PLUGIN names a copy of it, and without one these tests are skipped by name.
import { afterEach, describe, expect, it } from 'bun:test';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { PARLEY, personAt } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { call, say, type Step } from './model/steps.ts';
import { anOpenCode, seedPluginFolder } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { runs } from './support/runs.ts';
import { client } from './support/where.ts';

const { PEER_C2C_PLUGIN: original = '' } = process.env;
const opencode = client('opencode');
const why = original === '' ? ' (skipped: PEER_C2C_PLUGIN names no copy of it)' : opencode.why;
const story = original === '' ? it.skip : opencode.it;
afterEach(closeAll);

describe(`the plugin of the original c2c, with our c2c${why}`, () => {
  story('puts a message before the model as a user turn, and publishes its state', async () => {
    const { home, c2c, model, openCode } = await aHome([
      say('hello'),
      ...Array.from({ length: 8 }, () => say('I read it')),
    ]);
    const session = await (await openCode.serve()).session();
    await session.prompt('begin');
    await session.idle();
    await c2c('send', 'ocean', 'the river is rising');
    // Its drains overlap, so that it may prompt a message more than once: that is its own affair.
    const asked = (await model.saw('the river is rising')).where('the river is rising');
    expect(asked.map(({ role, kind }) => `${role} ${kind}`)).toEqual(asked.map(() => 'user text'));
    await session.idle(2);
    await c2c('send', 'ocean', 'the river is falling');
    await model.saw('the river is falling');
    const path = `${home}/.local/share/c2c/oc-plugin-state.json`;
    await within(30_000, async () => existsSync(path) && readFileSync(path, 'utf8').includes(session.id));
    expect((await c2c('statefile')).out).toContain('session opencode-project (ocean)');
  });

  story('asks a supervisor for a permission, and gives it on that one’s word', async () => {
    const steps = [call('bash', { command: 'echo yes > yes.txt', description: 'try' }), say('done')];
    const { project, userRuns, openCode } = await aHome(steps, { permission: { bash: 'ask' } });
    // Whom it asks, that plugin reads from this file; who counts is what the user named.
    mkdirSync(`${project}/.c2c`);
    writeFileSync(`${project}/.c2c/repo.json`, '{"permission_supervisors": ["river"]}');
    await userRuns('repo', 'set', 'supervisors', 'river');
    const server = await openCode.serve();
    const session = await server.session();
    await session.prompt('begin');
    const { properties } = await server.event(({ type }) => type === 'permission.asked');
    const answer = `permission:${String(properties['id'])}:approve-once`;
    await within(60_000, async () =>
      (await userRuns('peek-inbox', '--json', '--session-id', 'river-session')).out.includes(answer),
    );
    await userRuns('send', 'ocean', answer, '--from', 'river');
    await session.idle();
    expect(readFileSync(`${project}/yes.txt`, 'utf8')).toBe('yes\n');
  });
});

/** A home in which our `c2c` installed for OpenCode, and the plugin is theirs. `c2c` is river’s, another session. */
async function aHome(steps: Step[], settings = {}) {
  const [place, model] = [await aPlace(), opens(aModel(steps))];
  const { home, project } = place;
  mkdirSync(`${home}/bin`);
  writeFileSync(`${home}/bin/c2c`, `#!/bin/sh\nexec '${PARLEY}' c2c "$@"\n`);
  chmodSync(`${home}/bin/c2c`, 0o755);
  const env = { ...place.env, PATH: `${home}/bin:${place.env['PATH']}` };
  const c2c = async (...args: string[]): Promise<Run> => {
    const river = { ...env, C2C_MCP_SESSION_ID: 'river-session' };
    const run = await runs(['c2c', ...args], { cwd: project, env: river, ms: 60_000 });
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')}: ${run.err}${run.out}`);
    return run;
  };
  const userRuns = async (...args: string[]): Promise<Run> => {
    const command = [PARLEY, 'c2c', ...args];
    const run = await personAt({ command, cwd: project, env, typed: '', files: `${home}/user` });
    if (run.code !== 0) throw new Error(`c2c ${args.join(' ')}: ${run.err}${run.out}`);
    return run;
  };
  const openCode = anOpenCode({ place, model, settings, env: { PATH: env.PATH } });
  const folder = `${project}/.opencode`;
  seedPluginFolder(folder);
  await c2c('install', 'opencode', '--alias', 'ocean');
  copyFileSync(original, `${openCode.config}/plugins/c2c.ts`);
  await c2c('register', 'river');
  return { home, project, c2c, userRuns, model, openCode };
}
