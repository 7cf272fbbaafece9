import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import * as v from 'valibot';
import { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';
import { explained, isMissing } from '../disk.ts';

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
  throw new Refusal('bad_config', `${path} is not readable; mend it, or remove its folder and join again`);
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
