import { describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { InstallMachine } from '../support/install-home.ts';

interface Finding {
  level: 'ok' | 'warn' | 'bad';
  about: string;
  what: string;
  next?: string;
}
interface Told {
  well: boolean;
  counts: Record<Finding['level'], number>;
  findings: Finding[];
}

const QUESTION = ['send', '@claude', 'does the login test pass on your branch?', '--intent', 'question', '--as', 'me'];

async function aMachine(...clients: string[]): Promise<InstallMachine> {
  const machine = new InstallMachine();
  for (const client of clients) machine.fake(client);
  await machine.does('parley', ['init', 'me']);
  await machine.does('parley', ['init', 'claude']);
  if (clients.length > 0) await machine.does('parley', ['install', ...clients]);
  return machine;
}

async function told(machine: InstallMachine, env: Record<string, string> = {}): Promise<Told> {
  return JSON.parse((await machine.run('parley', ['doctor', '--json'], { env })).out) as Told;
}

async function about(machine: InstallMachine, subject: string, env: Record<string, string> = {}): Promise<Finding[]> {
  return (await told(machine, env)).findings.filter((finding) => finding.about === subject);
}

/** What Claude Code notes of a session that runs; here it is this process. */
function claudeRuns(machine: InstallMachine, status: string): void {
  const session = { pid: process.pid, sessionId: 'abcdef12-0000', cwd: machine.at('project'), kind: 'interactive' };
  machine.with({ [`.claude/sessions/${process.pid}.json`]: JSON.stringify({ ...session, status }) });
}

describe('`parley doctor` never says ok', () => {
  it('for mail that must be answered and that no client brings', async () => {
    const machine = await aMachine();
    expect(await about(machine, 'mailbox claude')).toEqual([]);
    await machine.does('parley', QUESTION);
    expect(await about(machine, 'mailbox claude')).toMatchObject([
      {
        level: 'warn',
        what: '1 message that must be answered waits for @claude, and no client has this mailbox',
        next: expect.stringContaining('`parley install <client> --as claude`'),
      },
    ]);
    await machine.does('parley', ['drain', '--as', 'claude']);
    expect(await about(machine, 'mailbox claude')).toEqual([]);
  });

  it('for such mail in the mailbox of a client that is not running', async () => {
    const machine = await aMachine('claude');
    await machine.does('parley', QUESTION);
    expect(await about(machine, 'mailbox claude')).toMatchObject([
      { level: 'warn', next: expect.stringContaining('start Claude Code, or give it a prompt') },
    ]);
  });

  it('for such mail in the mailbox of a client whose hook does not run', async () => {
    const machine = await aMachine('codex');
    await machine.does('parley', [
      'send',
      '@codex',
      'does it pass on your branch?',
      '--intent',
      'question',
      '--as',
      'me',
    ]);
    expect(await about(machine, 'mailbox codex')).toMatchObject([
      {
        level: 'warn',
        what: expect.stringContaining('nothing brings it to Codex'),
        next: expect.stringContaining('start Codex and trust the hooks when it asks'),
      },
    ]);
  });

  it('for an idle session with such mail, while a busy one will see it', async () => {
    const machine = await aMachine('claude');
    claudeRuns(machine, 'idle');
    expect(await about(machine, 'session abcdef12')).toMatchObject([{ level: 'ok' }]);
    await machine.does('parley', QUESTION);
    expect(await about(machine, 'session abcdef12')).toMatchObject([
      {
        level: 'warn',
        what: expect.stringContaining('1 message that must be answered waits for @claude'),
        next: expect.stringContaining('give it a prompt'),
      },
    ]);
    claudeRuns(machine, 'busy');
    expect(await about(machine, 'session abcdef12')).toMatchObject([{ level: 'ok' }]);
    claudeRuns(machine, 'waiting');
    expect(await about(machine, 'session abcdef12')).toMatchObject([
      { level: 'warn', next: 'answer it in its window; then mail comes' },
    ]);
  });

  it('for such mail in the mailbox of a client that is not installed', async () => {
    const machine = await aMachine();
    await machine.does('parley', ['install', 'claude']);
    await machine.does('parley', QUESTION);
    expect(await about(machine, 'mailbox claude')).toMatchObject([
      { level: 'warn', what: expect.stringContaining('Claude Code is not installed') },
    ]);
  });

  it('for a session that nothing of ours can reach', async () => {
    const machine = await aMachine();
    claudeRuns(machine, 'idle');
    expect(await about(machine, 'session abcdef12')).toMatchObject([
      {
        level: 'warn',
        what: expect.stringContaining('no way'),
        next: expect.stringContaining('parley install claude'),
      },
    ]);
  });

  it('for hooks that Codex does not run yet', async () => {
    const machine = await aMachine('codex');
    const [client] = await about(machine, 'codex');
    expect(client).toMatchObject({ level: 'warn', next: expect.stringContaining('trust the hooks') });
  });

  it('for hooks of Codex that were trusted and have changed since', async () => {
    const machine = await aMachine('codex');
    const events = ['session_start', 'user_prompt_submit', 'post_tool_use', 'stop'];
    const trust = (hash: string): void => {
      const notes = events.map(
        (event) =>
          `\n[hooks.state."${machine.at('.codex/hooks.json')}:${event}:0:0"]\ntrusted_hash = "sha256:${hash}-${event}"\n`,
      );
      const config = machine.read('.codex/config.toml').split('\n[hooks.state.')[0] ?? '';
      writeFileSync(machine.at('.codex/config.toml'), config + notes.join(''));
    };
    trust('old');
    expect((await about(machine, 'codex'))[0]).toMatchObject({ level: 'ok' });
    // The line names another home of Parley now.
    const env = { PARLEY_HOME: machine.at('.parley/') };
    expect(await machine.does('parley', ['install', 'codex'], { env })).toContain('The hook line changed');
    expect((await about(machine, 'codex', env))[0]).toMatchObject({ level: 'warn' });
    trust('new');
    expect((await about(machine, 'codex', env))[0]).toMatchObject({ level: 'ok' });
  });

  it('for a client that is here without Parley, or with tools only', async () => {
    const machine = (await aMachine()).fake('kimi');
    expect(await about(machine, 'kimi')).toMatchObject([
      { level: 'warn', next: expect.stringContaining('`parley install kimi`') },
    ]);
    await machine.does('parley', ['install', 'kimi', '--no-hooks']);
    expect(await about(machine, 'kimi')).toMatchObject([
      { level: 'warn', next: expect.stringContaining('mail waits until its model asks for it') },
    ]);
  });
});

describe('`parley doctor`', () => {
  it('names the allow rule that answering needs, until it is there', async () => {
    const machine = await aMachine('claude', 'opencode');
    expect(await about(machine, 'claude')).toMatchObject([
      { level: 'ok' },
      { level: 'warn', next: expect.stringContaining('`parley install claude --allow reply`') },
    ]);
    // OpenCode asks only where its settings say so.
    expect(await about(machine, 'opencode')).toHaveLength(1);
    await machine.userInstalls('claude', '--allow', 'reply');
    expect(await about(machine, 'claude')).toMatchObject([{ level: 'ok' }]);
  });

  it('counts in JSON what it says in words, and ends with 1 only for what is bad', async () => {
    const machine = await aMachine('claude');
    const { well, counts, findings } = await told(machine);
    for (const level of ['ok', 'warn', 'bad'] as const)
      expect(findings.filter((finding) => finding.level === level)).toHaveLength(counts[level]);
    const { out, code } = await machine.run('parley', ['doctor']);
    expect(out).toEndWith(`\n${counts.ok} ok, ${counts.warn} to look at, ${counts.bad} bad\n`);
    expect({ well, code }).toEqual({ well: true, code: 0 });
    expect(findings.filter(({ level, next }) => level !== 'ok' && !next)).toEqual([]);
  });
});

describe('`parley doctor`', () => {
  it('names the socket as the way to a session that the daemon follows', async () => {
    const machine = await aMachine('claude');
    claudeRuns(machine, 'idle');
    await machine.does('parley', ['up', '--detach']);
    expect(await about(machine, 'session abcdef12')).toMatchObject([
      { level: 'ok', what: expect.stringContaining('socket (primary), because the daemon gives @claude its mail') },
    ]);
    await machine.does('parley', ['down']);
  });
});
