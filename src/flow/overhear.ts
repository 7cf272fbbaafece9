import type { Message } from '../protocol/message.ts';
import type { AgentRecord } from '../storage/directory/directory.ts';
import type { Copy } from '../storage/ledger/ledger.ts';

/** The mailbox for what is said in a platform's channels is `<platform>._surface`. No person of it can have this name: `_su` is no byte. */
export const SURFACE_BOX = '._surface';

/**
 * Whoever reads a channel at a surface has no copy of what is not meant for them: the surface has one, and shows it to all. So a
 * channel costs the same however many people are in it. Those who are meant have theirs, which can be owed.
 */
export function withoutOverhearers(copies: Copy[]): Copy[] {
  const isAtSurface = readersAtSurface(copies.map(({ mailbox }) => mailbox));
  return copies.filter(({ mailbox, attention }) => attention.policy !== 'must_not_respond' || !isAtSurface(mailbox));
}

/** Without those of whom this can be told at a glance: there may be thousands, and each decision takes its time. */
export function withoutStrangers(readers: AgentRecord[], { thread, body }: Message): AgentRecord[] {
  if (thread !== undefined) return readers;
  const isAtSurface = readersAtSurface(readers.map(({ name }) => name));
  const calls = body.includes('@');
  return readers.filter(({ name, parley }) => {
    if (!isAtSurface(name)) return true;
    return !parley || parley.roles.length > 0 || parley.owns !== undefined || (calls && body.includes(name));
  });
}

/** Tells who of them reads at a surface that has a copy itself. */
function readersAtSurface(names: readonly string[]): (name: string) => boolean {
  const boxes = names.filter((name) => name.endsWith(SURFACE_BOX));
  const platforms = boxes.map((box) => box.slice(0, 1 - SURFACE_BOX.length));
  return (name) => platforms.some((platform) => name.startsWith(platform)) && !boxes.includes(name);
}
