import * as v from 'valibot';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { explained, isMissing } from '../../core/disk.ts';
import type { RelayHttp } from './remote-http.ts';

/** The features of a relay beyond the original's routes, and when we asked for them. */
export const Abilities = new Schema(() => v.object({ keys: v.boolean(), leases: v.boolean(), asked: v.number() }));
export type Abilities = Described<typeof Abilities>;

/** One of our agents at one relay. Each has a folder, `relays/<agent>@<host>…/`, with a token that only the user can read. */
export const Identity = new Schema(() =>
  v.object({
    v: v.literal(1),
    agent: AgentName.inner,
    url: v.string(),
    room: v.optional(v.string()),
    token: v.optional(v.string()),
    abilities: v.optional(Abilities.inner),
  }),
);
export type Identity = Described<typeof Identity>;

/** The folder of an agent at a relay and room: readable names, and a hash that makes it unique. */
export function folderFor(home: string, { agent, url, room = '' }: Pick<Identity, 'agent' | 'url' | 'room'>): string {
  const { host, pathname } = new URL(url);
  const place = `${host}${pathname}`
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, '-')
    .replace(/^[-.]+|[-.]+$/g, '')
    .slice(0, 80);
  const mark = Bun.hash(`${agent}\n${url}\n${room}`).toString(16).padStart(16, '0').slice(0, 8);
  return `${home}/relays/${agent}@${place}-${mark}`;
}

/** Null if there is none. */
export function readIdentity(folder: string): Identity | null {
  const path = `${folder}/relay.json`;
  try {
    const identity = Identity.safeParse(JSON.parse(readFileSync(path, 'utf8')));
    if (identity.success) return identity.data;
  } catch (error) {
    if (isMissing(error)) return null;
    if (!(error instanceof SyntaxError)) throw explained(error, path, 'nothing was done');
  }
  throw new Refusal('bad_config', `${path} is not valid; correct it, or remove its folder and join again`);
}

export function writeIdentity(folder: string, identity: Identity): void {
  const draft = `${folder}/.relay.json.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(draft, JSON.stringify(identity, null, 2), { mode: 0o600, flush: true });
    renameSync(draft, `${folder}/relay.json`);
  } catch (error) {
    throw explained(error, folder, 'nothing was saved');
  }
}

/** How long an answer is reused: another program may replace the relay at the same address. */
const CACHE_MS = 24 * 60 * 60 * 1000;

/** A relay's features, asked as seldom as possible: otherwise nearly every command would need another request. */
export class KnownAbilities {
  constructor(
    readonly http: RelayHttp,
    readonly now: () => number,
    readonly remembered: { read(): Abilities | undefined; write(abilities: Abilities): void },
  ) {}

  /** The last answer; undefined if we never asked. */
  known(): Abilities | undefined {
    return this.remembered.read();
  }

  /** The last answer if it is recent, otherwise a new one. */
  async get(): Promise<Abilities> {
    const known = this.known();
    return known && Math.abs(this.now() - known.asked) < CACHE_MS ? known : this.askNow();
  }

  /** A new answer, for decisions that do harm if an old answer is wrong. */
  async askNow(): Promise<Abilities> {
    const abilities = { ...(await abilitiesOf(this.http)), asked: this.now() };
    this.remembered.write(abilities);
    return abilities;
  }

  /** Drops the last answer, because it was wrong. */
  forget(): void {
    this.remembered.write({ keys: false, leases: false, asked: 0 });
  }
}

/** Asks a relay for its features. The original has no such route and answers 401 or 404. */
export async function abilitiesOf(http: RelayHttp): Promise<Omit<Abilities, 'asked'>> {
  const { status, data } = await http.call('GET', '/v1/version', { token: null });
  const told = (status === 200 && typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  return { keys: told['keys'] === true, leases: told['leases'] === true };
}
