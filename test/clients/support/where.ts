// Where the real clients are. `npm run test:clients` brings them; without them their tests are skipped by name, and with
// CI=true a missing client is a failure.
//
//   const claude = client('claude');
//   describe(`the hook in Claude Code${claude.why}`, () => { claude.it('…', async () => { … }) });
import { it } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { dependencies as pinned } from '../package.json';

const ROOT = new URL('../../../', import.meta.url).pathname;

/** The folder that scripts/clients.mjs filled. */
export const CLIENTS = process.env['PARLEY_CLIENTS'] ?? `${ROOT}.cache/clients`;

const PACKAGES = {
  claude: '@anthropic-ai/claude-code',
  codex: '@openai/codex',
  gemini: '@google/gemini-cli',
  kimi: '@moonshot-ai/kimi-code',
  opencode: 'opencode-ai',
} as const;

/** The version of OpenCode's package for plugins. */
export const PLUGIN_VERSION = listed()?.['versions']?.['@opencode-ai/plugin'] ?? pinned['@opencode-ai/plugin'];

export interface Client {
  /** The client's own program. Asking for it where it is missing is an error that says what to do. */
  readonly program: string;
  /** For the title of a group: empty, or why its tests are skipped. */
  readonly why: string;
  /** `it` where the client is, or where it must be; else `it.skip`. */
  readonly it: typeof it | typeof it.skip;
}

export function client(name: keyof typeof PACKAGES): Client {
  const program = programOf(PACKAGES[name]);
  const runs = program !== undefined || process.env['CI'] === 'true';
  const what = `${PACKAGES[name]} ${pinned[PACKAGES[name]]} is not here; npm run test:clients brings it`;
  return {
    get program() {
      if (program === undefined) throw new Error(what);
      return program;
    },
    why: runs ? '' : ` (skipped: ${what})`,
    it: runs ? it : it.skip,
  };
}

/** The Node that runs the clients that are scripts: Kimi and Gemini CLI. */
export function nodeForScripts(): string {
  return resolve(CLIENTS, listed()?.['programs']?.['node'] ?? '');
}

/** The program, if it is there in the version that is pinned. `npm run canary` takes any. */
function programOf(name: keyof typeof pinned): string | undefined {
  const { versions, programs } = listed() ?? {};
  const path = programs?.[name];
  const isWanted = versions?.[name] === pinned[name] || process.env['PARLEY_ANY_CLIENTS'] === '1';
  if (path === undefined || !isWanted) return undefined;
  return existsSync(`${CLIENTS}/${path}`) ? `${CLIENTS}/${path}` : undefined;
}

/** What scripts/clients.mjs found; null if it was not there. */
function listed(): Record<string, Record<string, string>> | null {
  const list = `${CLIENTS}/programs.json`;
  return existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as Record<string, Record<string, string>>) : null;
}
