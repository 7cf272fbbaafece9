// What `parley install` adds to Claude Code, and what is left when Parley goes.
import { afterEach, describe, expect } from 'bun:test';
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { aModel } from './model/model.ts';
import { bash, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');

afterEach(closeAll);

/** Claude Code in a home where `parley install claude` is all that was ever typed. */
async function anInstalledClaude() {
  const model = opens(aModel([bash('true'), say('done')]));
  const place = await aPlace();
  const parley = new Program(place.home, { TMPDIR: place.env['TMPDIR'] ?? '' });
  const code = aClaude({ place, model });
  const does = async (args: string[]): Promise<void> => {
    const { err, code: exit } = await parley.run(args, { cwd: place.project });
    if (exit !== 0) throw new Error(`parley ${args.join(' ')} ended with ${exit}: ${err}`);
  };
  await does(['install', 'claude']);
  return { place, model, code, does };
}

describe(`\`parley install claude\`, in Claude Code${claude.why}`, () => {
  claude.it('never keeps a prompt from the model when the home of Parley was moved away', async () => {
    const { place, model, code } = await anInstalledClaude();
    renameSync(`${place.home}/.parley`, `${place.home}/elsewhere`);
    expect(await code.headless('PROMPT without a home')).toMatchObject({ code: 0, err: '' });
    expect(model.main).toHaveLength(2);
    expect(model.last.has('PROMPT without a home')).toBe(true);
    expect(model.last.count('cannot open')).toBe(0);
  });

  claude.it('never keeps a prompt from the model when the program is gone', async () => {
    const { place, model, code } = await anInstalledClaude();
    const script = `${place.home}/.parley/hook`;
    writeFileSync(script, readFileSync(script, 'utf8').replaceAll(PARLEY, `${place.home}/gone`));
    chmodSync(script, 0o700);
    expect(await code.headless('PROMPT without a program')).toMatchObject({ code: 0, err: '' });
    expect(model.main).toHaveLength(2);
    expect(model.last.has('PROMPT without a program')).toBe(true);
  });

  claude.it('leaves a Claude Code that works when Parley is uninstalled', async () => {
    const { place, model, code, does } = await anInstalledClaude();
    expect(await code.headless('before')).toMatchObject({ code: 0 });
    await does(['self', 'uninstall', '--purge', '--yes']);
    expect(readFileSync(`${place.home}/.claude/settings.json`, 'utf8')).not.toContain('.parley/hook');
    expect(JSON.parse(readFileSync(`${place.home}/.claude.json`, 'utf8'))).not.toHaveProperty('mcpServers');
    const asked = model.main.length;
    expect(await code.headless('PROMPT after it')).toMatchObject({ code: 0, err: '' });
    expect(model.main.length).toBeGreaterThan(asked);
    expect(model.last.has('PROMPT after it')).toBe(true);
  });
});
