import { afterEach, describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { Machine } from '../support/bch.ts';
import { temporaryHome } from '../support/home.ts';
import { McpClient } from '../support/mcp.ts';

// The first home clears away what earlier runs left, which can take long: not on a test's time.
temporaryHome();

const clients: McpClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) await client.end();
});

/** A machine with the agents me and you, and the tools of me. */
async function tools(): Promise<{ machine: Machine; me: McpClient }> {
  const machine = new Machine().agent('me').agent('you');
  const me = clientOn(machine, { BACKCHANNEL_AGENT: 'me' });
  clients.push(me);
  await me.initialize();
  return { machine, me };
}

function clientOn({ program }: Machine, env: Record<string, string>): McpClient {
  return new McpClient({ home: program.home, env: { ...program.env, ...env } }, [], 'bch');
}

describe('`bch mcp`', () => {
  it('is the server backchannel 0.1.0 on stdio, with tools only [BC-B7.14, BC-B10.1, BC-B10.8]', async () => {
    const { machine } = await tools();
    const me = clientOn(machine, { BACKCHANNEL_AGENT: 'me' });
    clients.push(me);
    expect(await me.initialize()).toEqual({
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'backchannel', version: '0.1.0' },
    });
    for (const method of ['resources/list', 'prompts/list']) {
      expect((await me.request(method)).error?.code).toBe(-32601);
    }
  });

  it('has exactly four tools, whose arguments are all named [BC-B7.14, BC-B10.7, BC-B10.8]', async () => {
    const { me } = await tools();
    const { result } = await me.request('tools/list');
    const listed = result?.['tools'] as { name: string; inputSchema: { additionalProperties: unknown } }[];
    expect(listed.map(({ name }) => name)).toEqual(['bch_send', 'bch_inbox', 'bch_agents', 'bch_subscribe']);
    expect(listed.map(({ inputSchema }) => inputSchema.additionalProperties)).toEqual([false, false, false, false]);
    for (const name of ['bch_unsubscribe', 'bch_peek', 'bch_read', 'bch_wait']) {
      expect((await me.request('tools/call', { name, arguments: {} })).error?.code).toBe(-32602);
    }
  });

  it('sends with everything that a message can have, and says its full id [BC-B10.2]', async () => {
    const { machine, me } = await tools();
    const more = { priority: 'urgent', scope: 'org/repo', thread: 'abc', refs: ['src/a.ts'] };
    const { text } = await me.call('bch_send', { target: '@you', body: 'hello', ...more });
    const [, id = ''] = /^sent ([0-9a-f-]{36}) to @you$/.exec(text) ?? [];
    const stored = JSON.parse(readFileSync(`${machine.root}/spool/you/new/${id}.json`, 'utf8')) as object;
    expect(stored).toMatchObject({ id, from: 'me', to: '@you', body: 'hello', ...more });
    expect((await me.call('bch_send', { target: '@you', body: 'plain' })).text).toMatch(/^sent /);
  });

  it('takes what waits and matches, as indented JSON, and leaves what is scoped elsewhere [BC-B10.3, BC-B4.9]', async () => {
    const { machine, me } = await tools();
    const plain = machine.leave('me', { body: 'for anybody' });
    const scoped = machine.leave('me', { body: 'for the repository', scope: 'org/repo' });
    const first = (await me.call('bch_inbox')).text;
    expect(JSON.parse(first)).toMatchObject([{ id: plain, body: 'for anybody' }]);
    expect(first).toBe(JSON.stringify(JSON.parse(first), null, 2));
    expect((await me.call('bch_inbox')).text).toBe('inbox empty');
    expect(machine.files('me', 'new')).toEqual([`${scoped}.json`]);
    const there = (await me.call('bch_inbox', { match: 'github.com/org/repo' })).text;
    expect(JSON.parse(there)).toMatchObject([{ id: scoped }]);
    expect(machine.files('me', 'new')).toEqual([]);
  });

  it('lists the agents, without anything secret of theirs [BC-B10.4]', async () => {
    const { machine, me } = await tools();
    machine.agent('old', { tokenHash: 'f'.repeat(64) });
    const { text } = await me.call('bch_agents');
    expect((JSON.parse(text) as { name: string }[]).map(({ name }) => name).sort()).toEqual(['me', 'old', 'you']);
    expect(text).not.toContain('ffff');
  });

  it('subscribes to a channel [BC-B10.5]', async () => {
    const { machine, me } = await tools();
    expect((await me.call('bch_subscribe', { channel: '#dev' })).text).toBe('subscribed to #dev');
    expect(machine.record('me')['subscriptions']).toEqual(['#dev']);
  });

  it('answers a call that fails with isError and the reason [BC-B10.6]', async () => {
    const { me } = await tools();
    expect(await me.call('bch_send', { target: '@nobody', body: 'hi' })).toEqual({
      text: 'unknown agent "nobody" — they must `bch init nobody` first',
      isError: true,
    });
  });

  it.each([
    ['bch_send', { target: '@you', body: 'hi', from: 'you' }],
    ['bch_send', { target: '@you' }],
    ['bch_send', { target: '@you', body: 'hi', priority: 'loud' }],
    ['bch_inbox', { peek: true }],
    ['bch_agents', { all: true }],
    ['bch_subscribe', { channel: '#dev', agent: 'you' }],
  ])('refuses arguments of %s that are not its own: %j [BC-B10.7]', async (name, given) => {
    const { machine, me } = await tools();
    expect((await me.call(name, given)).isError).toBe(true);
    expect(machine.files('you', 'new')).toEqual([]);
    expect(machine.record('me')['subscriptions']).toEqual([]);
  });

  it('does not start without an identity [BC-B10.9]', async () => {
    const machine = new Machine().agent('me');
    const { code, err } = await clientOn(machine, {}).end();
    expect(code).toBe(1);
    expect(err).toStartWith('error: no agent identity');
  });
});
