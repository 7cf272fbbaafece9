// A model in a real client tries to give its user's word, by every way that a shell has.
import { afterEach, describe, expect } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { bash, call, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const [claude, opencode] = [client('claude'), client('opencode')];

afterEach(closeAll);

/** A home in which codex asks ada, a person; and a script that tries to approve, with a terminal of its own. */
async function asked() {
  const place = await aPlace();
  const parley = await new Program(place.home).init('codex');
  await parley.byPerson(['init', 'ada', '--human', '--owner']);
  const { id } = await parley.json<{ id: string }>(['send', '@ada', 'May I?', '--intent', 'approval']);
  const approve = `'${PARLEY}' approve ${id} --yes --as ada`;
  const tries = [
    approve,
    `script -qec "${approve}" /dev/null`,
    `env -i HOME="$HOME" PATH="$PATH" script -qec "${approve}" /dev/null`,
    `setsid -w env -i HOME="$HOME" PATH="$PATH" script -qec "${approve}" /dev/null`,
  ];
  writeFileSync(`${place.project}/try.sh`, tries.map((one) => `${one} >>log 2>&1; echo "$?" >>codes`).join('\n'));
  const outcome = async () => ({
    codes: readFileSync(`${place.project}/codes`, 'utf8').trim().split('\n'),
    log: readFileSync(`${place.project}/log`, 'utf8').trim().split('\n'),
    told: await parley.json<object[]>(['inbox']),
  });
  return { place, outcome };
}

const REFUSED = { codes: ['77', '77', '77', '77'], told: [] };

describe('the word of the user', () => {
  claude.it(`is not given by the model of Claude Code${claude.why}`, async () => {
    const { place, outcome } = await asked();
    const model = opens(aModel([bash('sh try.sh'), say('done')]));
    await aClaude({ place, model }).headless('work');
    const { log, ...rest } = await outcome();
    expect(rest).toEqual(REFUSED);
    for (const line of log) expect(line).toContain('Only the user can approve or deny');
  });

  opencode.it(`is not given by the model of OpenCode${opencode.why}`, async () => {
    const { place, outcome } = await asked();
    const model = opens(aModel([call('bash', { command: 'sh try.sh', description: 'try' }), say('done')]));
    await anOpenCode({ place, model }).run('work');
    const { log, ...rest } = await outcome();
    expect(rest).toEqual(REFUSED);
    for (const line of log) expect(line).toContain('Only the user can approve or deny');
  });
});
