import { describe, expect, it } from 'bun:test';
import { mkdirSync } from 'node:fs';
import type { Message } from '../../src/core/message.ts';
import { Brokerage } from '../support/c2c.ts';
import type { As } from '../support/c2c.ts';
import { McpClient } from '../support/mcp.ts';
import { PARLEY, Program } from '../support/program.ts';
import type { Run } from '../support/program.ts';

const BOB: As = { session: 's-bob' };

/** A line from a refusal, typed in a shell. */
async function typed(line: string, env: Record<string, string>, cwd: string): Promise<Run> {
  const named = `parley() { "${PARLEY}" "$@"; }; c2c() { (exec -a c2c "${PARLEY}" "$@"); }`;
  const child = Bun.spawn(['bash', '-c', `${named}; ${line.replace('"…"', '"it is 8080"')}`], {
    env,
    cwd,
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { out, err, code };
}

/** The line that a refusal gives. */
function lineIn(refusal: string): string {
  const [, line = ''] = /; type: (.*)$/.exec(refusal.trimEnd()) ?? [];
  return line;
}

async function inboxOf(broker: Brokerage, agent: string): Promise<Message[]> {
  return JSON.parse((await broker.parley(['inbox', '--json', '--as', agent])).out) as Message[];
}

describe('a c2c session whose recipient is an agent of Parley', () => {
  it('is given the exact line that answers its last message, and the line works', async () => {
    const broker = await new Brokerage().registered(['bob']);
    await broker.parley(['init', 'me']);
    await broker.parley(['send', '@bob%c2c', 'an earlier one']);
    const { id } = JSON.parse((await broker.parley(['send', '@bob%c2c', 'which port?', '--json'])).out) as Message;
    await broker.said(['poll-inbox'], BOB);
    const refusal = await broker.error(['send', 'me', 'it is 8080'], BOB);
    const variable = `C2C_MCP_BROKER_ROOT="${broker.root}"`;
    expect(refusal).toBe(
      `"me" is an agent of Parley, not a session of c2c; type: ${variable} parley reply ${id.slice(0, 8)} "…" --as bob`,
    );
    // The shell of a client does not know the broker that its server was started with.
    expect(await typed(lineIn(refusal), broker.program.env, broker.program.home)).toMatchObject({ code: 0 });
    expect(await inboxOf(broker, 'me')).toMatchObject([{ from: 'bob', body: 'it is 8080', thread: id }]);
  });

  it('is told how to write first, also by its tool, and the line works', async () => {
    const broker = await new Brokerage().registered(['bob']);
    await broker.parley(['init', 'me']);
    const env = broker.env({ ...BOB, env: { C2C_MCP_CLIENT_PID: String(process.pid) } });
    const client = new McpClient({ home: broker.program.home, env }, [], 'c2c');
    await client.initialize();
    const { text, isError } = await client.call('send', { to_alias: 'me', content: 'hello' });
    await client.end();
    expect(isError).toBe(true);
    expect(text).toEndWith('parley send @me "…" --as bob');
    expect(await typed(lineIn(text), broker.program.env, broker.program.home)).toMatchObject({ code: 0 });
    expect(await inboxOf(broker, 'me')).toMatchObject([{ from: 'bob', body: 'it is 8080' }]);
  });

  it('is given a line without the broker where it is that of the folder', async () => {
    const program = new Program();
    await program.init('me');
    await program.run(['register', 'bob', '--session-id', 's-bob'], { name: 'c2c' });
    const { err } = await new Program(program.home, { C2C_MCP_SESSION_ID: 's-bob' }).run(['send', 'me', 'hi'], {
      name: 'c2c',
    });
    expect(err).toEndWith('; type: parley send @me "…" --as bob\n');
  });

  it('is given one line for each home that has an agent of that name', async () => {
    const broker = await new Brokerage().registered(['bob']);
    await broker.parley(['init', 'me']);
    await broker.program.run(['init', 'me'], { name: 'bch' });
    const variable = `C2C_MCP_BROKER_ROOT="${broker.root}"`;
    expect(await broker.error(['send', 'me', 'hi'], BOB)).toEndWith(
      `; type: ${variable} parley send @me%parley "…" --as bob or ${variable} parley send @me%bch "…" --as bob`,
    );
  });
});

describe('an agent of Parley whose recipient is at the broker of another folder', () => {
  it('is given the exact line, and the line works', async () => {
    const program = await new Program().init('me');
    const folder = `${program.home}/project`;
    mkdirSync(folder);
    Bun.spawnSync(['git', 'init', '-q', folder]);
    await program.run(['register', 'bob', '--session-id', 's-bob'], { name: 'c2c', cwd: folder });
    expect((await program.run(['send', '@bob', 'hi'], { cwd: folder })).code).toBe(0);
    const { err, code } = await program.run(['send', '@bob', 'hi']);
    expect(code).toBe(68);
    expect(err).toMatch(
      /^parley: @bob is a session of c2c at the broker of another folder; type: C2C_MCP_BROKER_ROOT="[^"]+" parley send @bob%c2c "…" \(`parley reply` works in the same way\)\n$/,
    );
    const line = lineIn(err).replace(/ \(`parley reply`.*/, '');
    expect(await typed(line, program.env, program.home)).toMatchObject({ code: 0 });
    const { out } = await program.run(['inbox', '--json', '--as', 'bob'], { cwd: folder });
    expect((JSON.parse(out) as Message[]).map(({ body }) => body)).toEqual(['hi', 'it is 8080']);
  });
});
