import { afterEach, describe, expect } from 'bun:test';
import { existsSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, call, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { aKimi } from './support/kimi.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import type { Place } from './support/place.ts';
import { client } from './support/where.ts';

const C2C = `${PARLEY} c2c`;
const [claude, codex] = [client('claude'), client('codex')];
const [kimi, opencode] = [client('kimi'), client('opencode')];
type Row = Record<string, unknown>;

afterEach(closeAll);

/** What the model does in a shell: register, wait until the test has looked, and go on. */
const REGISTERS = `${C2C} register bob && touch registered && until [ -e looked ]; do sleep 0.05; done`;

async function listed(place: Place): Promise<Row[]> {
  const program = new Program(place.home);
  const { out } = await program.run(['c2c', 'list', '--json'], { cwd: place.project });
  return JSON.parse(out) as Row[];
}

async function isAliveAsLongAs(place: Place, run: Promise<unknown>): Promise<Row> {
  await within(60_000, async () => existsSync(`${place.project}/registered`));
  const [row = {}] = await listed(place);
  expect(row).toMatchObject({ alias: 'bob', alive: true });
  writeFileSync(`${place.project}/looked`, '');
  await run;
  expect(await listed(place)).toMatchObject([{ alias: 'bob', alive: false }]);
  return row;
}

describe(`c2c register in a shell of Claude Code${claude.why}`, () => {
  claude.it('knows the session and its process: it is alive as long as the client runs [C2C-6]', async () => {
    const place = await aPlace();
    const model = opens(aModel([bash(REGISTERS), say('done')]));
    const code = aClaude({ place, model });
    const id = crypto.randomUUID();
    const row = await isAliveAsLongAs(place, code.headless('work', ['--session-id', id]));
    expect(row['session_id']).toBe(id);
  });
});

describe(`c2c register in a shell of Codex${codex.why}`, () => {
  codex.it('knows the thread and its process: it is alive as long as the client runs [C2C-6]', async () => {
    const place = await aPlace();
    const model = opens(aModel([call('exec_command', { cmd: REGISTERS, yield_time_ms: 600_000 }), say('done')]));
    const run = aCodex({ place, model }).exec('work', ['--json']);
    const row = await isAliveAsLongAs(place, run);
    const [started = ''] = (await run).out.split('\n');
    expect(JSON.parse(started)).toMatchObject({ type: 'thread.started', thread_id: row['session_id'] });
  });
});

describe(`c2c register in a shell of Kimi${kimi.why}`, () => {
  kimi.it('knows its process, where the session is named', async () => {
    const place = await aPlace();
    const command = `C2C_MCP_SESSION_ID=k-1 ${REGISTERS}`;
    const model = opens(aModel([call('Bash', { command, timeout: 600 }), say('done')]));
    const row = await isAliveAsLongAs(place, aKimi({ place, model }).headless('work'));
    expect(row['session_id']).toBe('k-1');
  });
});

describe(`c2c register in a shell of OpenCode${opencode.why}`, () => {
  opencode.it('knows its process, where the session is named', async () => {
    const place = await aPlace();
    const command = `C2C_MCP_SESSION_ID=oc-1 ${REGISTERS}`;
    const model = opens(aModel([call('bash', { command, description: 'a step' }), say('done')]));
    const row = await isAliveAsLongAs(place, anOpenCode({ place, model }).run('work'));
    expect(row['session_id']).toBe('oc-1');
  });
});
