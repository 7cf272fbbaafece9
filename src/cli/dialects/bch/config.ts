import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { AgentName } from '../../../protocol/names.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { isMissing } from '../../../storage/disk.ts';
import { locked } from '../../../storage/lock-file.ts';

/** `config.json`, shared with the original. Keys that we do not know are kept. */
export interface Config {
  agent?: string;
  url?: string;
  token?: string;
  room?: string;
  backend?: string;
  /** Ours: the tokens of the agents that are not `agent` at the moment, by name. */
  tokens?: Record<string, string>;
  [unknown: string]: unknown;
}

export function readConfig(root: string): Config {
  const path = `${root}/config.json`;
  try {
    const config: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (isConfig(config)) return config;
  } catch (error) {
    if (isMissing(error)) return {};
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Refusal('bad_config', `${path} is not readable as a config; mend or remove it, then run this again`);
}

function isConfig(value: unknown): value is Config {
  if (!isTable(value)) return false;
  const { tokens = {}, ...rest } = value;
  const texts = ['agent', 'url', 'token', 'room', 'backend'].map((key) => rest[key]);
  return (
    isTable(tokens) &&
    [...texts, ...Object.values(tokens)].every((text) => text === undefined || typeof text === 'string')
  );
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Makes this agent the one who acts on this machine. A token belongs to one agent, and the original forgets it when another is
 * made the current one. Here `token` is always the current agent's, which is all that the original reads; those of the others
 * wait in `tokens` until their agent is the current one again.
 */
export function becomeAgent(
  root: string,
  name: AgentName,
  place?: { url: string; room?: string; token?: string },
): void {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  locked(`${root}/config.lock`, () => {
    const before = readConfig(root);
    const { agent, token } = before;
    const tokens = { ...before.tokens, ...(agent !== undefined && token !== undefined && { [agent]: token }) };
    const { [name]: own, ...others } = tokens;
    // A token beside no agent is nobody else's.
    const current = own ?? (agent === undefined ? token : undefined);
    const after: Config = { agent: name, ...before };
    after.agent = name;
    delete after.token;
    delete after.tokens;
    if (place) {
      // At a relay every agent's token has a file of its own besides: here stands only what the original reads.
      delete after.room;
      Object.assign(after, place);
      if (before.tokens) after.tokens = before.tokens;
      return write(`${root}/config.json`, after);
    }
    if (current !== undefined) after.token = current;
    if (Object.keys(others).length > 0) after.tokens = others;
    write(`${root}/config.json`, after);
  });
}

function write(path: string, config: Config): void {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(config, null, 2), { mode: 0o600, flush: true });
  renameSync(draft, path);
}
