import type { Relay } from './process.ts';
import { flushDisk, residentBytes } from './process.ts';

/** The relay of another program that speaks the same protocol, with so many agents. It is never part of this project: `program` is a copy that runs. */
export async function startPeerRelay(program: string, home: string, agents: number): Promise<Relay> {
  const port = freePort();
  const child = Bun.spawn([program, 'relay', '--port', String(port), '--token', 'room'], {
    env: { PATH: process.env['PATH'] ?? '', HOME: home, BACKCHANNEL_HOME: home },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // It says where it listens.
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
  if (!token) throw new Error(`it answered ${answer.status} to a registration`);
  return token;
}

function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  return port;
}
