import * as v from 'valibot';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { explained, isMissing } from '../../core/disk.ts';
import type { RelayHttp } from './remote-http.ts';

/** What a relay can do beyond the original's routes, and when it was asked. */
export const Abilities = new Schema(() => v.object({ keys: v.boolean(), leases: v.boolean(), asked: v.number() }));
export type Abilities = Described<typeof Abilities>;

/** Who we are at one relay. Each has a folder of its own, `relays/<agent>@<host>…/`, with its token readable by its owner only. */
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

/** The folder of this agent at this relay and room: its names for people, and a mark that tells any two apart. */
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
  throw new Refusal('bad_config', `${path} is not readable; correct it, or remove its folder and join again`);
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

/** How long an answer holds: a relay can be replaced by another program at the same address. */
const HOLDS_MS = 24 * 60 * 60 * 1000;

/** What a relay can do, asked as seldom as possible: nearly every command would pay a round for it. */
export class KnownAbilities {
  constructor(
    readonly http: RelayHttp,
    readonly now: () => number,
    readonly remembered: { read(): Abilities | undefined; write(abilities: Abilities): void },
  ) {}

  /** As it was last told; undefined if nobody ever asked. */
  known(): Abilities | undefined {
    return this.remembered.read();
  }

  /** As it was last told, if that is not long ago. */
  async get(): Promise<Abilities> {
    const known = this.known();
    return known && Math.abs(this.now() - known.asked) < HOLDS_MS ? known : this.askNow();
  }

  /** As it is this very moment: whatever could do harm if it were otherwise asks here. */
  async askNow(): Promise<Abilities> {
    const abilities = { ...(await abilitiesOf(this.http)), asked: this.now() };
    this.remembered.write(abilities);
    return abilities;
  }

  /** What we remembered was not so. */
  forget(): void {
    this.remembered.write({ keys: false, leases: false, asked: 0 });
  }
}

/** The original knows no such route, and says so with a 401 or a 404. */
export async function abilitiesOf(http: RelayHttp): Promise<Omit<Abilities, 'asked'>> {
  const { status, data } = await http.call('GET', '/v1/version', { token: null });
  const told = (status === 200 && typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  return { keys: told['keys'] === true, leases: told['leases'] === true };
}
