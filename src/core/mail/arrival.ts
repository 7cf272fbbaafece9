import type { Message } from '../message.ts';
import type { AgentName, MessageId } from '../names.ts';
import type { Evidence } from '../receipt.ts';
import type { AgentRecord } from '../ports/directory.ts';
import type { Home, Who } from './workspace.ts';
import { SURFACE_BOX } from './route.ts';

/** The state of an answer. `waiting`: not shown yet. `withdrawn`: its author withdrew it before it was shown. */
export type Arrival = 'arrived' | 'waiting' | 'withdrawn' | { failed: Evidence };

/** How long an answered message stays hidden from its reader while the answer waits for its chat. */
const ASIDE_MS = 24 * 60 * 60 * 1000;

/**
 * Plain mail has arrived when it is stored. An answer to a person in a chat has arrived when the chat has shown it. Until then the message
 * that it answers stays open. spec: host#shown
 */
export async function arrivalOf(home: Home, author: string, said: Message): Promise<Arrival> {
  if (!(await isAtSurface(home, author, said))) return 'arrived';
  const copy = await home.journal.copy(boxOf(author, said), said.id);
  if (copy?.state === 'stored' || copy?.state === 'held') return 'waiting';
  if (copy?.disposition === 'failed') return { failed: copy.settledBy ?? {} };
  return copy?.disposition === 'superseded' ? 'withdrawn' : 'arrived';
}

/** Must a chat show this message to the reader? A message that was written in the chat is already visible there. */
export async function isAtSurface(home: Home, reader: string, said: Message): Promise<boolean> {
  const platform = platformOf(reader);
  if (platform === reader || said.from.startsWith(`${platform}.`)) return false;
  return (await surfaceOf(home, reader)) !== null;
}

/** The record of the chat that this reader belongs to. */
export function surfaceOf(home: Home, reader: string): Promise<AgentRecord | null> {
  return home.directory.get(`${platformOf(reader)}${SURFACE_BOX}` as AgentName);
}

/** The mailbox with the copy for this reader: of a channel message the chat itself has the copy. */
export function boxOf(reader: string, { to }: Message): AgentName {
  return (to.startsWith('#') ? `${platformOf(reader)}${SURFACE_BOX}` : reader) as AgentName;
}

function platformOf(reader: string): string {
  return reader.split('.', 1)[0] ?? '';
}

/**
 * Holds a message whose answer still waits for its chat, so that nobody else answers it. If the answer is not shown within a day, the
 * message waits again.
 */
export async function setAside({ name, home }: Who, id: MessageId): Promise<void> {
  const copy = await home.journal.copy(name, id);
  if (copy?.state === 'stored') await home.mailboxes.claim(name, [id], { ms: ASIDE_MS, bearer: 'answered' });
}
