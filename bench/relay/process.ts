import { readFileSync } from 'node:fs';
import type { Load, Loaded } from './load.child.ts';
import type { Serving } from './server.child.ts';

/** A relay in a process of its own. */
export interface Relay {
  port: number;
  tokens: string[];
  names: string[];
  /** What it has in memory now, in bytes. */
  memory(): number;
  stop(): Promise<void>;
}

const FOLDER = import.meta.dir;

export async function startRelay(plan: Serving): Promise<Relay> {
  const child = Bun.spawn([process.execPath, `${FOLDER}/server.child.ts`, JSON.stringify(plan)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  const { port } = JSON.parse(new TextDecoder().decode(value)) as { port: number };
  const numbers = Array.from({ length: plan.agents }, (_, n) => n);
  return {
    port,
    tokens: numbers.map((n) => `token-${n}`),
    names: numbers.map((n) => `agent-${n}`),
    memory: () => residentBytes(child.pid),
    async stop() {
      await child.stdin.end();
      await child.exited;
    },
  };
}

/** Drives a relay from another process: a client in ours would share its time with the measuring. */
export async function drive(relay: Relay, plan: Pick<Load, 'connections' | 'requests'>): Promise<Loaded> {
  const { port, tokens, names } = relay;
  const load: Load = { port, tokens, to: names.map((name) => `@${name}`), ...plan };
  const child = Bun.spawn([process.execPath, `${FOLDER}/load.child.ts`, JSON.stringify(load)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error('the load ended early');
  return JSON.parse(said) as Loaded;
}

function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
}
