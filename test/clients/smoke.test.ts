// One test for each real client: mail reaches its model through what Parley installs in it. `npm test` runs these where
// the clients are; `npm run test:clients` runs all tests with real clients.
import { afterEach, describe, expect } from 'bun:test';
import { readFileSync } from 'node:fs';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, call, gate, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { aGemini, geminiShell } from './support/gemini.ts';
import { aKimi } from './support/kimi.ts';
import { anOpenCode, seedPluginFolder } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const [claude, codex] = [client('claude'), client('codex')];
const [kimi, opencode, gemini] = [client('kimi'), client('opencode'), client('gemini')];
const DEADLINE = 200_000;
afterEach(closeAll);

async function aMachine() {
  const model = opens(aModel([]));
  const place = await aPlace();
  const program = new Program(place.home);
  const does = async (args: string[], name: 'parley' | 'c2c' = 'parley'): Promise<string> => {
    const { out, err, code } = await program.run(args, { name, cwd: place.project });
    if (code !== 0) throw new Error(`${name} ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  return { model, place, does };
}

describe('mail reaches the model once', () => {
  claude.it(`in Claude Code, by its hook, during a tool call${claude.why}`, async () => {
    const { model, place, does } = await aMachine();
    const code = aClaude({ place, model });
    await does(['install', 'claude']);
    await does(['init', 'me']);
    const [sent, recorded] = [gate(), gate()];
    model.script(bash('true', sent.opened), bash('true'), say('read it', recorded.opened));
    const run = code.headless('work');
    await model.request(1);
    const { id } = JSON.parse(await does(['send', '@claude', 'CANARY it is red', '--as', 'me', '--json'])) as Sent;
    sent.open();
    await model.request(3);
    // Claude Code writes its record a moment later; this model answers sooner than any other.
    await within(DEADLINE, async () => transcriptIn(code.folder).split('"type":"tool_use"').length === 3);
    recorded.open();
    expect(await run).toMatchObject({ code: 0, err: '' });
    expect(model.main[1]?.count('CANARY it is red')).toBe(1);
    expect(model.last.count('CANARY')).toBe(1);
    expect(await does(['trace', id, '--verbose'])).toMatch(
      /shown .*by hook, client claude, .*record .*\.jsonl, offset/,
    );
  });

  codex.it(`in Codex, by its hook, during a tool call${codex.why}`, async () => {
    const { model, place, does } = await aMachine();
    const code = aCodex({ place, model });
    for (const name of ['claude', 'codex']) await does(['init', name]);
    await does(['install', 'codex', '--hooks']);
    const terminal = await code.terminal();
    await code.trustHooks(terminal);
    const sent = gate();
    model.script(call('exec_command', { cmd: 'true' }, sent.opened), say('read it'));
    await code.ready(terminal);
    await terminal.submit('work');
    await model.request(1);
    await does(['send', '@codex', 'CANARY it is red', '--as', 'claude']);
    sent.open();
    expect((await model.request(2)).count('CANARY it is red')).toBe(1);
  });

  kimi.it(`in Kimi, by its hook, with the prompt of its user${kimi.why}`, async () => {
    const { model, place, does } = await aMachine();
    const code = aKimi({ place, model });
    for (const name of ['claude', 'kimi']) await does(['init', name]);
    await does(['install', 'kimi']);
    await does(['send', '@kimi', 'CANARY it is red', '--as', 'claude']);
    model.script(say('one'), say('two'));
    await code.headless('hello');
    expect((await model.request(1)).count('CANARY it is red')).toBe(1);
    await code.headless('and now?', ['-c']);
    expect(model.last.count('CANARY')).toBe(1);
  });

  gemini.it(`in Gemini CLI, by its hook, during a tool call, and its record proves it${gemini.why}`, async () => {
    const { model, place, does } = await aMachine();
    const code = aGemini({ place, model });
    await does(['init', 'me']);
    await does(['install', 'gemini']);
    const sent = gate();
    model.script(geminiShell('true', sent.opened), say('read it'));
    const run = code.headless('work');
    await model.request(1);
    const { id } = JSON.parse(await does(['send', '@gemini', 'CANARY it is red', '--as', 'me', '--json'])) as Sent;
    sent.open();
    expect((await run).out).toContain('read it');
    expect((await model.request(2)).count('CANARY it is red')).toBe(1);
    expect(await does(['trace', id, '--verbose'])).toMatch(
      /shown .*by hook, client gemini, .*record .*\.jsonl, offset/,
    );
  });

  opencode.it(
    `in OpenCode, from the plugin of the user and the copy in the project [C2C-37, C2C-37b]${opencode.why}`,
    async () => {
      const { model, place, does } = await aMachine();
      const openCode = anOpenCode({ place, model });
      seedPluginFolder(`${place.project}/.opencode`);
      await does(['install', 'opencode', '--project-plugin', '--alias', 'ocean'], 'c2c');
      model.script(say('one'), say('two'));
      const server = await openCode.serve();
      const session = await server.session();
      await session.prompt('hello');
      await session.idle();
      await does(['send', 'ocean', 'CANARY over the sea', '--from', 'bob'], 'c2c');
      expect((await model.saw('CANARY over the sea')).count('CANARY')).toBe(1);
      await session.idle(2);
      expect(model.last.count('CANARY')).toBe(1);
    },
  );
});

/** What Claude Code wrote down of its only session. */
function transcriptIn(folder: string): string {
  const [path] = new Bun.Glob('projects/*/*.jsonl').scanSync({ cwd: folder, absolute: true });
  return path === undefined ? '' : readFileSync(path, 'utf8');
}

interface Sent {
  id: string;
}
