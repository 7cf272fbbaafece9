import { describe, expect, it } from 'bun:test';
import type { Brokerage } from '../support/c2c.ts';
import { C2cHooks } from '../support/c2c-hooks.ts';
import { McpClient } from '../support/mcp.ts';

/**
 * The ways by which an agent is given its mail where it asks for it or its client does. Those that hand over have their contract in
 * src/delivery/way.contract.ts.
 */
interface Asking {
  /** Everything that the agent sees when it looks twice. */
  twice(at: C2cHooks): Promise<string>;
  /** It goes away in the middle of a look. What it has seen by then. */
  leaving(at: C2cHooks): Promise<string>;
}

const WAYS: Record<string, Asking> = {
  'poll, by command': {
    twice: async (at) => (await poll(at)) + (await poll(at)),
    leaving: async (at) => (await at.start('c2c', ['poll-inbox'], { session: 's-bob' }).stop('SIGKILL')).out,
  },
  'poll, by tool': {
    async twice(at) {
      const client = await aServer(at);
      const told = [await client.call('poll_inbox'), await client.call('poll_inbox')];
      await client.end();
      return told.map(({ text }) => text).join('\n');
    },
    async leaving(at) {
      const client = await aServer(at);
      await client.write('{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"poll_inbox"}}');
      await client.write('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}');
      // Where the answer was faster than the word that nobody wants it any more, it was seen.
      return client.rest();
    },
  },
  hook: {
    twice: async (at) => (await at.call()).out + (await at.call()).out,
    async leaving(at) {
      at.slowHalf('kill -9 $$');
      return (await at.call()).out;
    },
  },
  'plugin, by its drain': {
    twice: async (at) => (await drain(at)) + (await drain(at)),
    async leaving(at) {
      // A place where nothing can be written.
      await Bun.write(`${at.program.home}/file`, '');
      await at.c2c(drainTo(`${at.program.home}/file/spool.json`), { session: 's-bob' });
      return '';
    },
  },
};

async function poll(at: Brokerage): Promise<string> {
  return at.said(['poll-inbox', '--json'], { session: 's-bob' });
}

async function aServer(at: Brokerage): Promise<McpClient> {
  const client = new McpClient({ home: at.program.home, env: at.env({ session: 's-bob' }) }, [], 'c2c');
  await client.initialize();
  return client;
}

function drainTo(path: string): string[] {
  return ['oc-plugin', 'drain-inbox-to-spool', '--spool-path', path, '--json'];
}

/** As the plugin does it: what it was given it removes from the spool. */
async function drain(at: Brokerage): Promise<string> {
  const path = `${at.program.home}/spool.json`;
  const out = await at.said(drainTo(path), { session: 's-bob' });
  await Bun.write(path, '[]');
  return JSON.stringify((JSON.parse(out) as { messages: unknown }).messages);
}

async function withMail(): Promise<{ at: C2cHooks; bodies: string[] }> {
  const at = new C2cHooks();
  await at.registered(['alice', 'bob']);
  const bodies = ['one', 'two', 'three'].map((word) => `${word}-${crypto.randomUUID()}`);
  for (const body of bodies) await at.said(['send', 'bob', body], { session: 's-alice' });
  return { at, bodies };
}

describe.each(Object.entries(WAYS))('an agent that gets its mail by %s', (_name, way) => {
  it('sees each body once, in order [C2C-34]', async () => {
    const { at, bodies } = await withMail();
    const seen = await way.twice(at);
    expect(bodies.map((body) => seen.split(body).length - 1)).toEqual([1, 1, 1]);
    expect(bodies.map((body) => seen.indexOf(body))).toEqual(
      bodies.map((body) => seen.indexOf(body)).toSorted((a, b) => a - b),
    );
    expect(at.inbox('s-bob')).toEqual([]);
  });

  it('finds all of it after it went away in the middle', async () => {
    const { at, bodies } = await withMail();
    const seen = (await way.leaving(at)) + (await poll(at));
    // What was shown may come again, marked; nothing may be gone.
    expect(bodies.filter((body) => !seen.includes(body))).toEqual([]);
  });
});
