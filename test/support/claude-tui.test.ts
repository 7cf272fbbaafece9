import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { claudeComposer } from '../../src/clients/claude/state.ts';
import { TmuxServer } from '../../src/sessions/tmux.ts';
import { ClaudeTui } from './claude-tui.ts';
import { shownBy } from './scripted-tui.ts';
import { within } from './within.ts';

const hasTmux = Bun.which('tmux') !== null;
const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one.close();
});

describe.skipIf(!hasTmux)(`the stand-in for Claude Code${hasTmux ? '' : ' (skipped: tmux is not here)'}`, () => {
  it('takes a prompt, answers it, and writes both down as the client does', async () => {
    const { claude, pane, folder } = await opens();
    expect(await shownBy(pane, claudeComposer)).toBe('empty');
    await pane.paste('say it @@{"tool":true,"parts":["one","two"]}@@');
    expect(await within(20_000, async () => (await shownBy(pane, claudeComposer)) === 'draft')).toBeUndefined();
    await pane.enter();
    await claude.prompted();
    await claude.until('idle');
    const types = lines(claude, folder).map(({ type, subtype, message }) => [
      type,
      subtype ?? message?.stop_reason ?? '',
    ]);
    expect(types.filter(([type]) => type !== 'file-history-snapshot')).toEqual([
      ['api-request-blob', ''],
      ['user', ''],
      ['api-request', ''],
      ['assistant', ''],
      ['assistant', 'tool_use'],
      ['user', ''],
      ['api-request', ''],
      ['assistant', ''],
      ['assistant', 'end_turn'],
      ['system', 'turn_duration'],
    ]);
    await within(20_000, async () => (await shownBy(pane, claudeComposer)) === 'empty');
  });

  it('joins what is typed while it works into one turn', async () => {
    const { claude, pane } = await opens();
    for (const text of ['first @@{"hold":true}@@', 'second', 'third']) {
      await pane.paste(text);
      await pane.enter();
      await within(20_000, async () => claude.noted().some(({ prompt, queued }) => (prompt ?? queued) === text));
    }
    await claude.order({ finish: 'done' });
    expect(await claude.prompted(2)).toEqual(['first @@{"hold":true}@@', 'second\nthird']);
  });

  it.each([
    ['a shell', '!echo bang', { shell: 'echo bang' }],
    ['a command', '/status', { command: 'status' }],
    ['an end', 'exit', { ended: 0 }],
  ])('takes a text for %s where the client does', async (_what, text, noted) => {
    const { claude, pane } = await opens();
    await pane.paste(text);
    await pane.enter();
    await within(20_000, async () => claude.noted().some((one) => Object.keys(noted).every((key) => key in one)));
    expect(claude.noted().at(-1)).toMatchObject(noted);
    expect(claude.prompts()).toEqual([]);
  });

  it('gives a prompt back when Esc comes before its first word', async () => {
    const { claude, pane } = await opens();
    await pane.paste('wait @@{"hold":true}@@');
    await pane.enter();
    await claude.until('busy');
    await claude.tmux('send-keys', '-t', '=hand:', 'Escape');
    await claude.until('idle');
    await within(20_000, async () => (await shownBy(pane, claudeComposer)) === 'draft');
  });

  it('answers an open question by Enter, and drops what is pasted into it', async () => {
    const { claude, pane } = await opens();
    await claude.order({ dialog: 'permission prompt' });
    expect(claude.registered()).toMatchObject({ status: 'waiting', waitingFor: 'permission prompt' });
    expect(await shownBy(pane, claudeComposer)).toBe('dialog');
    await pane.paste('hello');
    await pane.enter();
    await claude.until('idle');
    expect(claude.harm()).toMatchObject([{ dialog: 'hello' }, { approved: true }]);
  });

  it('goes on with the newest conversation of its folder, and ends where there is none', async () => {
    const { claude, folder } = await opens();
    await claude.order({ quit: '0' });
    const run = Bun.spawn([claude.program, '-c'], { cwd: folder, env: claude.env, stdout: 'pipe' });
    expect(await new Response(run.stdout).text()).toContain('No conversation found to continue');
    expect(await run.exited).toBe(1);
  });
});

interface Line {
  type: string;
  subtype?: string;
  message?: { stop_reason?: string };
}

function lines(claude: ClaudeTui, folder: string): Line[] {
  const projects = `${claude.env['HOME']}/.claude/projects/${folder.replace(/[^A-Za-z0-9]/g, '-')}`;
  const [name = ''] = readdirSync(projects);
  const text = readFileSync(`${projects}/${name}`, 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

async function opens() {
  const claude = new ClaudeTui();
  opened.push(claude);
  const folder = `${claude.env['HOME']}/project`;
  mkdirSync(folder);
  await claude.openByHand('hand', folder);
  const server = await TmuxServer.open({ env: claude.env });
  return { claude, folder, pane: await server.terminal('=hand:') };
}
