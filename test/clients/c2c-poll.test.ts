// Polling as real clients do it: the model calls the tool of the server that `c2c install` wrote down.
import { afterEach, describe, expect } from 'bun:test';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { call, gate, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { aKimi } from './support/kimi.ts';
import { aManaged, SOCKET } from './support/managed.ts';
import { anOpenCode, seedPluginFolder } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { client } from './support/where.ts';

const [claude, codex] = [client('claude'), client('codex')];
const [kimi, opencode] = [client('kimi'), client('opencode')];

afterEach(closeAll);

describe(`poll_inbox in Claude Code${claude.why}`, () => {
  claude.it('puts what waits before the model as the result of its call [C2C-34]', async () => {
    const machine = await aMachine('mcp__c2c__poll_inbox');
    const { place, model, c2c } = machine;
    const code = aClaude({ place, model });
    await c2c('install', 'claude', '--global');
    const id = crypto.randomUUID();
    await c2c('register', 'ada', '--session-id', id);
    await c2c('send', 'ada', 'CANARY the build is red', '--from', 'bob');
    await expectPolled(machine, id, code.headless('work', ['--session-id', id]));
  });
});

describe(`poll_inbox in OpenCode${opencode.why}`, () => {
  opencode.it('puts what waits before the model as the result of its call [C2C-34]', async () => {
    const machine = await aMachine('c2c_poll_inbox');
    const { place, model, c2c } = machine;
    const openCode = anOpenCode({ place, model });
    seedPluginFolder(`${place.project}/.opencode`);
    await c2c('install', 'opencode', '--alias', 'ocean');
    // Its plugin would bring it before it is asked for.
    rmSync(`${openCode.config}/plugins/c2c.ts`);
    const id = 'opencode-project';
    await c2c('register', 'ocean', '--session-id', id);
    await c2c('send', 'ocean', 'CANARY the build is red', '--from', 'bob');
    await expectPolled(machine, id, openCode.run('work'));
  });
});

describe(`poll_inbox in Codex${codex.why}`, () => {
  codex.it('puts what waits before the model as the result of its call, in a managed session [C2C-34]', async () => {
    const machine = await aMachine('mcp__c2c__poll_inbox');
    const { place, model, c2c } = machine;
    const code = aCodex({ place, model });
    await c2c('install', 'codex');
    const terminal = await aManaged(place, new Program(place.home, { ...code.env, ...SOCKET }), 'codex', '-n', 'ada');
    await code.ready(terminal);
    await c2c('send', 'ada', 'CANARY the build is red', '--from', 'bob');
    await terminal.submit('work');
    await expectPolled(machine, 'ada');
  });

  codex.it('does so under the alias of its settings in `codex exec` [C2C-34]', async () => {
    const machine = await aMachine('mcp__c2c__poll_inbox');
    const { place, model, c2c } = machine;
    const code = aCodex({ place, model });
    await c2c('install', 'codex', '--alias', 'ada');
    await c2c('register', 'ada', '--session-id', 'ada');
    await c2c('send', 'ada', 'CANARY the build is red', '--from', 'bob');
    await expectPolled(machine, 'ada', code.exec('work'));
  });
});

describe(`poll_inbox in Kimi${kimi.why}`, () => {
  kimi.it('puts what waits before the model as the result of its call [C2C-34]', async () => {
    const machine = await aMachine('mcp__c2c__poll_inbox');
    const { place, model, c2c } = machine;
    const code = aKimi({ place, model });
    await c2c('install', 'kimi', '--alias', 'ada');
    // Its hook would bring it before it is asked for.
    writeFileSync(`${code.folder}/config.toml`, withoutHooks(readFileSync(`${code.folder}/config.toml`, 'utf8')));
    await c2c('register', 'ada', '--session-id', 'ada');
    await c2c('send', 'ada', 'CANARY the build is red', '--from', 'bob');
    await expectPolled(machine, 'ada', code.headless('work'));
  });
});

const withoutHooks = (settings: string): string => settings.slice(0, settings.indexOf('[[hooks]]'));

/** The mail is the result of the model's call, and waits no more. Only then the model goes on, and the client ends. */
async function expectPolled({ model, c2c, read }: Machine, session: string, run?: Promise<Run>): Promise<void> {
  const asked = await model.request(2);
  const kinds = new Set(asked.where('CANARY the build is red').map(({ kind }) => kind));
  expect([...kinds]).toEqual(['tool result']);
  await within(60_000, async () => (await c2c('peek-inbox', '--session-id', session, '--json')) === '[]\n');
  read.open();
  if (run) expect(await run).toMatchObject({ code: 0 });
}

type Machine = Awaited<ReturnType<typeof aMachine>>;

/** A machine whose model calls this tool, and goes on when its result was read. */
async function aMachine(tool: string) {
  const read = gate();
  const model = opens(aModel([call(tool, {}), say('I read it', read.opened)]));
  const place: Place = await aPlace();
  const program = new Program(place.home);
  const c2c = async (...args: string[]): Promise<string> => {
    const { out, err, code } = await program.run(args, { name: 'c2c', cwd: place.project });
    if (code !== 0) throw new Error(`c2c ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  return { place, model, c2c, read };
}
