import type { Message } from '../message.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import type { AgentRecord } from '../ports/directory.ts';
import type { Home, Who } from './workspace.ts';
import { SURFACE_BOX } from './route.ts';

/** What became of an answer. `waiting`: it is still to be shown. `withdrawn`: it was taken back before. */
export type Arrival = 'arrived' | 'waiting' | 'withdrawn' | { failed: Evidence };

/** So long what was answered stays out of its reader's sight while the answer waits for its surface. */
const ASIDE_MS = 24 * 60 * 60 * 1000;

/**
 * Plain mail has arrived when it is stored. Anyone who wrote at a surface has an answer when that has shown it: until then nobody has
 * seen it, and what it answers has no end. spec: host#shown
 */
export async function arrivalOf(home: Home, author: string, said: Message): Promise<Arrival> {
  if (!(await isAtSurface(home, author, said))) return 'arrived';
  const copy = await home.journal.copy(boxOf(author, said), said.id);
  if (copy?.state === 'stored' || copy?.state === 'held') return 'waiting';
  if (copy?.disposition === 'failed') return { failed: copy.settledBy ?? {} };
  return copy?.disposition === 'superseded' ? 'withdrawn' : 'arrived';
}

/** Is somebody shown this at a surface? What was said there is seen there already. */
export async function isAtSurface(home: Home, reader: string, said: Message): Promise<boolean> {
  const platform = platformOf(reader);
  if (platform === reader || said.from.startsWith(`${platform}.`)) return false;
  return (await surfaceOf(home, reader)) !== null;
}

/** The record of the surface under whose name this reader is. */
export function surfaceOf(home: Home, reader: string): Promise<AgentRecord | null> {
  return home.directory.get(`${platformOf(reader)}${SURFACE_BOX}` as AgentName);
}

/** Of a channel's message the surface itself has the copy that is shown. */
export function boxOf(reader: string, { to }: Message): AgentName {
  return (to.startsWith('#') ? `${platformOf(reader)}${SURFACE_BOX}` : reader) as AgentName;
}

function platformOf(reader: string): string {
  return reader.split('.', 1)[0] ?? '';
}

/** Its answer is under way: meanwhile nobody else is asked for one. If that is never shown, the event waits again after a day. */
export async function setAside({ name, home }: Who, id: MessageId): Promise<void> {
  const copy = await home.journal.copy(name, id);
  if (copy?.state === 'stored') await home.mailboxes.claim(name, [id], { ms: ASIDE_MS, bearer: 'answered' });
}
