import type { Relay } from './process.ts';
import { flushDisk, residentBytes } from './process.ts';

/** Starts the relay of another program with the same protocol, and registers this many agents. The program is no part of this project: `program` is the path of an installed copy. */
export async function startPeerRelay(program: string, home: string, agents: number): Promise<Relay> {
  const port = freePort();
  const child = Bun.spawn([program, 'relay', '--port', String(port), '--token', 'room'], {
    env: { PATH: process.env['PATH'] ?? '', HOME: home, BACKCHANNEL_HOME: home },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // Its first output has its address.
  await child.stdout.getReader().read();
  const names = Array.from({ length: agents }, (_, n) => `agent-${n}`);
  const tokens: string[] = [];
  for (const name of names) tokens.push(await register(port, name));
  return {
    port,
    names,
    tokens,
    memory: () => residentBytes(child.pid),
    async settled() {
      flushDisk();
    },
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}

async function register(port: number, name: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/register`, {
    method: 'POST',
    headers: { authorization: 'Bearer room' },
    body: JSON.stringify({ name }),
  });
  const { token } = (await answer.json()) as { token?: string };
  if (!token) throw new Error(`the peer relay answered a registration with status ${answer.status}`);
  return token;
}

function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  return port;
}
