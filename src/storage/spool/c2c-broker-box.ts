import { existsSync, lstatSync, mkdirSync, readdirSync, unlinkSync } from 'node:fs';
import { readSessionId } from '../../protocol/c2c.ts';
import { AgentName } from '../../protocol/names.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { readHeld, withoutHeld, writeHeld } from '../c2c/held-file.ts';
import type { Held } from '../c2c/held-file.ts';
import { appendToInbox, named, pick, readInbox, slipOf, writeInbox } from '../c2c/inbox-file.ts';
import type { InboxFile, Slip } from '../c2c/inbox-file.ts';
import { appendLines } from '../c2c/lines-file.ts';
import { withLock, withLockBehind } from '../c2c/lock.ts';
import { flushFolder, noPlainFile } from '../c2c/state-file.ts';
import { codeOf, ifThere } from '../disk.ts';
import { stampOf } from '../file-stamp.ts';
import { LARGEST_LIST_BYTES } from '../plain-file.ts';

/** Which session an alias belongs to now, and which aliases there are. Neither may take the registry's lock, nor wait. */
export interface BrokerNames {
  fileOf(mailbox: AgentName): string;
  mailboxes(): AgentName[];
}

const ENDING = '.inbox.json';
/** A process that stays does not remember for ever what it saw. */
const REMEMBERED = 50_000;

/**
 * The inboxes of a broker directory, `<session>.inbox.json`, and what our readers hold of them, `held/<alias>.held`. Everything here is
 * done under the locks of the original, in its order: the registry's, only as long as it takes to get that of the inbox; then ours.
 * Nothing waits for anything else meanwhile.
 */
export class BrokerBox {
  readonly #stood = new Map<AgentName, Set<MessageId | null>>();
  #seen: { path: string; stamp: string; inbox: InboxFile } | undefined;

  constructor(
    readonly root: string,
    readonly names: BrokerNames,
    readonly onStep: (step: string) => void = () => {},
  ) {}

  make(): void {
    const folder = `${this.root}/held`;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      // A folder that is missing, or not ours to make, is the broker's own trouble.
      if (codeOf(error) !== 'EEXIST') throw error;
      throw new Refusal('storage_failed', `${folder} is no folder, so nothing was changed: move it away`);
    }
  }

  session(mailbox: AgentName): string {
    return readSessionId(this.names.fileOf(mailbox));
  }

  path(mailbox: AgentName): string {
    return `${this.root}/${this.session(mailbox)}${ENDING}`;
  }

  /** Every mailbox that there is: those of the registry, and those of sessions that are in none. */
  mailboxes(): AgentName[] {
    const known = this.names.mailboxes();
    const sessions = new Set(known.map((mailbox) => this.names.fileOf(mailbox)));
    const files = (ifThere(() => readdirSync(this.root)) ?? []).filter((name) => name.endsWith(ENDING));
    const others = files.map((name) => name.slice(0, -ENDING.length)).filter((session) => !sessions.has(session));
    const held = (ifThere(() => readdirSync(`${this.root}/held`)) ?? []).filter((name) => name.endsWith('.held'));
    return [...new Set([...known, ...others, ...held.map((name) => name.slice(0, -5))])].filter(
      (name) => AgentName.safeParse(name).success,
    ) as AgentName[];
  }

  /** What waits, without the lock: files are replaced whole. It is read again only if it has changed. */
  look(mailbox: AgentName): InboxFile {
    const path = this.path(mailbox);
    const stamp = stampOf(path);
    if (stamp === '') return { slips: [] };
    if (this.#seen?.path !== path || this.#seen.stamp !== stamp) {
      this.#seen = { path, stamp, inbox: readInbox(path) };
      this.#remember(mailbox, this.#seen.inbox);
    }
    return this.#seen.inbox;
  }

  /** Not only of the last look: between it and the claim another may see an inbox that somebody has emptied. */
  #remember(mailbox: AgentName, { slips }: InboxFile): void {
    const before = this.#stood.get(mailbox);
    const stood = before && before.size < REMEMBERED ? before : new Set<MessageId | null>();
    for (const { id } of slips) stood.add(id);
    this.#stood.set(mailbox, stood);
  }

  /** Whether it stood in the inbox when we looked: then it is its sender's no longer. */
  stood(mailbox: AgentName, id: MessageId): boolean {
    return this.#stood.get(mailbox)?.has(id) ?? false;
  }

  held(mailbox: AgentName): Map<MessageId, Held> {
    return readHeld(this.#heldPath(mailbox));
  }

  /** Refuses what stands in an inbox's place and is none: better before a message is accepted than after. */
  refuseOddity(mailbox: AgentName): void {
    const path = this.path(mailbox);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat && (!stat.isFile() || stat.size > LARGEST_LIST_BYTES)) throw noPlainFile(path);
  }

  /** S2. Adds what is neither waiting nor in a hand. */
  append(mailbox: AgentName, added: readonly { id: MessageId; text: string }[]): void {
    this.#locked(mailbox, (path) => {
      this.refuseOddity(mailbox);
      const missing = withoutHeld(this.#heldPath(mailbox), added);
      if (missing.length > 0) appendToInbox(this.root, path, missing);
    });
  }

  /** Keeps a copy of an inbox that another program left broken, and writes what can be saved of it in its place. */
  mend(mailbox: AgentName): void {
    this.#locked(mailbox, (path) => {
      const found = readInbox(path);
      if (found.broken !== undefined) writeInbox(this.root, path, found.slips, found, true);
    });
  }

  /** Renames are on disk when this returns. */
  flush(): void {
    flushFolder(this.root);
  }

  /**
   * T2. Moves entries into the hand, and returns those that are there now. One that says no id is given one first, in its place:
   * if we die while it is in both places, everybody can see that it is the same.
   */
  take(mailbox: AgentName, ids: readonly MessageId[]): Map<MessageId, Held> {
    return this.#locked(mailbox, (path) => {
      const held = this.held(mailbox);
      const inbox = this.#withNames(path, readInbox(path), ids, held);
      const picked = pick(inbox.slips, ids, held);
      for (const [id, slip] of picked) if (!held.has(id)) held.set(id, slip);
      if (picked.size > 0) {
        writeHeld(this.#heldPath(mailbox), held);
        this.onStep('T2 in both');
        this.#rewriteWithout(path, inbox, picked.values());
      }
      this.onStep('T2 in hand');
      return new Map(ids.flatMap((id) => (held.has(id) ? [[id, held.get(id) as Held]] : [])));
    });
  }

  #withNames(path: string, inbox: InboxFile, ids: readonly MessageId[], held: ReadonlyMap<MessageId, Held>): InboxFile {
    const nameless = new Map(
      [...pick(inbox.slips, ids, held)].flatMap(([id, slip]) => (slip.id === id ? [] : [[slip, id]])),
    );
    if (nameless.size === 0) return inbox;
    const slips = inbox.slips.map((slip) => {
      const id = nameless.get(slip);
      return id === undefined ? slip : named(slip, id);
    });
    writeInbox(this.root, path, slips, inbox, false);
    this.onStep('T2 named');
    return { slips };
  }

  /** From the hand back to where it waited, in order of time. */
  putBack(mailbox: AgentName, ids: readonly MessageId[]): void {
    this.#locked(mailbox, (path) => {
      const held = this.held(mailbox);
      const back = ids.flatMap((id) => {
        const one = held.get(id);
        const slip = one && slipOf(one.entry, one.text);
        held.delete(id);
        return slip ? [slip] : [];
      });
      if (back.length === 0) return;
      const inbox = readInbox(path);
      const there = new Set(inbox.slips.map(({ id }) => id));
      const missing = back.filter(({ id }) => !there.has(id));
      if (missing.length > 0) writeInbox(this.root, path, merged(missing, inbox.slips), inbox, true);
      this.onStep('R in both');
      writeHeld(this.#heldPath(mailbox), held);
    });
  }

  /** T4. Out of the hand, for good. */
  drop(mailbox: AgentName, ids: readonly MessageId[]): void {
    if (!existsSync(this.#heldPath(mailbox))) return;
    withLock(this.#heldLock(mailbox), () => {
      const held = this.held(mailbox);
      const before = held.size;
      for (const id of ids) held.delete(id);
      if (held.size < before) writeHeld(this.#heldPath(mailbox), held);
    });
  }

  /** Takes entries away wherever they are, and returns which were there. `aside`: their texts are kept beside. */
  remove(mailbox: AgentName, ids: readonly MessageId[], aside = false): MessageId[] {
    return this.#locked(mailbox, (path) => {
      const inbox = readInbox(path);
      const held = this.held(mailbox);
      // What is set aside says its id: one that is only alike was said anew.
      const picked = pick(aside ? inbox.slips.filter(({ id }) => id !== null) : inbox.slips, ids, held);
      const inHand = ids.filter((id) => held.has(id));
      if (aside) this.#setAside(mailbox, [...picked.values()]);
      if (picked.size > 0) this.#rewriteWithout(path, inbox, picked.values());
      for (const id of inHand) held.delete(id);
      if (inHand.length > 0) writeHeld(this.#heldPath(mailbox), held);
      return [...new Set([...picked.keys(), ...inHand])];
    });
  }

  /** Everything that waits, with its file. The lock files stay: somebody may wait for them. */
  empty(mailbox: AgentName): void {
    this.#locked(mailbox, (path) => {
      ifThere(() => unlinkSync(path));
      ifThere(() => unlinkSync(this.#heldPath(mailbox)));
    });
  }

  asides(): string[] {
    const names = ifThere(() => readdirSync(`${this.root}/repaired`)) ?? [];
    return names.filter((name) => !name.startsWith('untold')).map((name) => `${this.root}/repaired/${name}`);
  }

  #setAside(mailbox: AgentName, slips: readonly Slip[]): void {
    if (slips.length === 0) return;
    mkdirSync(`${this.root}/repaired`, { recursive: true, mode: 0o700 });
    appendLines(
      `${this.root}/repaired/${mailbox}.again.jsonl`,
      slips.map(({ entry }) => entry),
    );
  }

  #rewriteWithout(path: string, inbox: InboxFile, gone: Iterable<Slip>): void {
    const without = new Set(gone);
    const left = inbox.slips.filter((slip) => !without.has(slip));
    writeInbox(this.root, path, left, inbox, false);
  }

  #locked<T>(mailbox: AgentName, act: (path: string) => T): T {
    this.make();
    const lockOf = (): string => `${this.root}/${this.session(mailbox)}.inbox.lock`;
    return withLockBehind(`${this.root}/registry.json.lock`, lockOf, (lock) =>
      withLock(this.#heldLock(mailbox), () => act(lock.replace(/\.lock$/, '.json'))),
    );
  }

  #heldPath(mailbox: AgentName): string {
    return `${this.root}/held/${mailbox}.held`;
  }

  #heldLock(mailbox: AgentName): string {
    return `${this.root}/held/${mailbox}.lock`;
  }
}

/** Those that are put back come before the first that is younger; the others keep the order in which they arrived. */
function merged(back: readonly Slip[], waiting: readonly Slip[]): Slip[] {
  const rest = back.toSorted((a, b) => timeOf(a) - timeOf(b));
  const all: Slip[] = [];
  for (const slip of waiting) {
    for (let next = rest[0]; next && timeOf(next) <= timeOf(slip); next = rest[0]) {
      all.push(next);
      rest.shift();
    }
    all.push(slip);
  }
  return [...all, ...rest];
}

function timeOf({ entry }: Slip): number {
  return typeof entry.ts === 'number' ? entry.ts : 0;
}
