import { Database } from 'bun:sqlite';
import { readFileSync } from 'node:fs';
import type { Load, Loaded } from './load.child.ts';
import type { Serving } from './server.child.ts';

/** A relay in a separate process. */
export interface Relay {
  port: number;
  tokens: string[];
  names: string[];
  /** Its resident memory now, in bytes. */
  memory(): number;
  /** Resolves when every accepted message has its file and the disk is flushed: late work of one relay must not slow the next one. */
  settled(): Promise<void>;
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
    async settled() {
      await allFiled(`${plan.home}/ledger.db`);
    },
    async stop() {
      await child.stdin.end();
      await child.exited;
    },
  };
}

/** Sends to a relay from another process: in this one, the sending would compete with the measuring. */
export async function drive(relay: Relay, plan: Omit<Load, 'port' | 'tokens' | 'to'>): Promise<Loaded> {
  const { port, tokens, names } = relay;
  const load: Load = { port, tokens, to: names.map((name) => `@${name}`), ...plan };
  const child = Bun.spawn([process.execPath, `${FOLDER}/load.child.ts`, JSON.stringify(load)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error('the load process failed');
  return JSON.parse(said) as Loaded;
}

async function allFiled(journal: string): Promise<void> {
  const db = new Database(journal, { readonly: true });
  const left = db.query<{ n: number }, []>('SELECT count(*) AS n FROM unfiled');
  while ((left.get()?.n ?? 0) > 0) await Bun.sleep(20);
  db.close();
  flushDisk();
}

export function flushDisk(): void {
  Bun.spawnSync(['sync']);
}

export function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
}
