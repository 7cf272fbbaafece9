// The original `bch`, brought by anyone who runs these tests: PEER_BCH names its executable, PEER_BCH_OLD that of its version
// without rooms. Neither is a part of this project, and without them these tests are skipped by name.
//
//   const { story, why } = peers('original');
//   describe(`both on one home${why}`, () => { story('…', async () => { … }) });
import { it } from 'bun:test';
import { closeAll, opens } from '../../clients/support/opened.ts';
import { Running } from '../../support/bch.ts';
import type { Options } from '../../support/bch.ts';
import { McpClient } from '../../support/mcp.ts';
import type { Run } from '../../support/program.ts';
import { listening } from '../../support/relay.ts';
import { SetupMachine } from '../../support/setup-home.ts';

const VARIABLES = { original: 'PEER_BCH', older: 'PEER_BCH_OLD' } as const;

/** Whose program: theirs, theirs before it had rooms, or ours. */
export type Brand = keyof typeof VARIABLES | 'ours';

/** How a test runs that needs these, and why it does not. */
export function peers(...needed: (keyof typeof VARIABLES)[]): { story: typeof it | typeof it.skip; why: string } {
  const missing = needed.filter((brand) => executable(brand) === '').map((brand) => VARIABLES[brand]);
  if (missing.length === 0) return { story: it, why: '' };
  const name = missing.length === 1 ? 'names' : 'name';
  return { story: it.skip, why: ` (skipped: ${missing.join(' and ')} ${name} no copy of the original)` };
}

function executable(brand: keyof typeof VARIABLES): string {
  return process.env[VARIABLES[brand]] ?? '';
}

/** A relay at work. */
export interface Relay {
  url: string;
  running: Running;
}

/** A machine that has both programs, on one home, and no client. Whatever is started here ends with the test: `afterEach(endAll)`. */
export class PeerMachine extends SetupMachine {
  begin(brand: Brand, args: string[], options: Options = {}): Running {
    const theirs = brand === 'ours' ? undefined : [executable(brand)];
    const running = new Running('bch', args, this.env(options), this.program.home, theirs);
    opens({ close: () => end(running) });
    return running;
  }

  async run(brand: Brand, args: string[], options: Options = {}): Promise<Run> {
    const running = this.begin(brand, args, options);
    await running.ended();
    return running.run();
  }

  /** What `bch …` of either prints. It must succeed and have nothing to complain about. */
  async told(brand: Brand, args: string[], options: Options = {}): Promise<string> {
    const { out, err, code } = await this.run(brand, args, options);
    if (code !== 0 || err !== '') throw new Error(`bch ${args.join(' ')} (${brand}) ended with ${code}: ${err}`);
    return out;
  }

  /** A relay of either on this machine's home, once it listens. */
  async relay(brand: Brand, args: string[] = [], { port = 0, env = {} } = {}): Promise<Relay> {
    const running = this.begin(brand, ['relay', '--port', String(port), ...args], { env });
    return { running, url: (await listening(running)).replace(/\/$/, '') };
  }

  /** The tools of either, after the handshake. */
  async tools(brand: Brand, options: Options = {}): Promise<McpClient> {
    const { home } = this.program;
    const theirs = brand === 'ours' ? {} : { command: [executable(brand), 'mcp'] };
    const client = new McpClient({ home, env: this.env(options), ...theirs }, [], 'bch');
    opens({ close: async () => void (await client.end()) });
    await client.initialize();
    return client;
  }
}

export const endAll = closeAll;

async function end(running: Running): Promise<void> {
  if (running.child.exitCode === null) running.child.kill('SIGKILL');
  await running.ended();
}
