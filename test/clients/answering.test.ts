import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { call, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const openCode = client('opencode');
const SKILL = 'Read and answer mail from other agents';

afterEach(closeAll);

/** The arguments of an answer to a question of codex. */
async function answerTo(parley: Program, reader: string): Promise<{ id: string; text: string }> {
  const { id } = await parley.json<{ id: string }>(['send', reader, 'is it green?'], { as: 'codex' });
  return { id, text: 'it is green' };
}

describe(`a model that answers mail in Claude Code in manual mode${claude.why}`, () => {
  claude.it('stops at a dialog without the allow rule', async () => {
    const { parley, model, session } = await aSession(['install', 'claude']);
    expect(await session.until('waiting')).toMatchObject({ waitingFor: 'permission prompt' });
    expect(model.main).toHaveLength(1);
    expect((await parley.run(['inbox'], { as: 'codex' })).out).not.toContain('it is green');
  });

  claude.it('answers without one when the user allowed that, and knows the skill', async () => {
    const { parley, model, session } = await aSession(['install', 'claude', '--allow', 'reply']);
    expect((await model.request(2)).has('stored as')).toBe(true);
    await session.until('idle');
    expect((await parley.run(['inbox'], { as: 'codex' })).out).toContain('it is green');
    expect(model.main[0]?.has(SKILL)).toBe(true);
  });

  async function aSession(install: string[]) {
    const place = await aPlace();
    const parley = await new Program(place.home).init('claude', 'codex');
    const model = opens(aModel([call('mcp__parley__reply', await answerTo(parley, '@claude')), say('done')]));
    await parley.byPerson([...install, '--yes']);
    const session = await aClaude({ place, model, permissions: 'ask' }).interactive();
    await session.terminal.submit('answer codex');
    return { parley, model, session };
  }
});

describe(`a model that answers mail in OpenCode where tools are asked for${openCode.why}`, () => {
  openCode.it('is refused without the allow rule', async () => {
    const { parley, model } = await aRun(['install', 'opencode']);
    expect(model.main).toHaveLength(1);
    expect((await parley.run(['inbox'], { as: 'codex' })).out).not.toContain('it is green');
  });

  openCode.it('answers when the user allowed that, and knows the skill', async () => {
    const { parley, model } = await aRun(['install', 'opencode', '--allow', 'reply']);
    expect((await parley.run(['inbox'], { as: 'codex' })).out).toContain('it is green');
    expect(JSON.stringify(model.main[0]?.body)).toContain(SKILL);
  });

  async function aRun(install: string[]) {
    const place = await aPlace();
    const parley = await new Program(place.home).init('opencode', 'codex');
    const model = opens(aModel([call('parley_reply', await answerTo(parley, '@opencode')), say('done')]));
    const code = anOpenCode({ place, model, settings: { permission: { '*': 'ask' } } });
    await parley.byPerson([...install, '--yes']);
    await code.run('answer codex');
    return { parley, model };
  }
});
