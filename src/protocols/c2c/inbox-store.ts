import { existsSync, lstatSync, mkdirSync, readdirSync, unlinkSync } from 'node:fs';
import { AgentName, isMessageId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { codeOf, ifThere } from '../../core/disk.ts';
import { stampOf, flushFolder, LARGEST_LIST_BYTES } from '../../platform/files.ts';
import { isEntry } from './entry.ts';
import { appendLines, noPlainFile, readFileLines, replaceDurably } from './files.ts';
import { inboxEntry, merged, pick, readInbox, withId, writeInbox } from './inbox.ts';
import type { InboxList, InboxEntry } from './inbox.ts';
import { jsonValue } from './json-list.ts';
import { withLock, withLockBehind } from './lock.ts';
import { readSessionId } from './shapes.ts';

/** The current session of an alias, and all aliases. Neither method may take the registry's lock, or wait. */
export interface BrokerNames {
  fileOf(mailbox: AgentName): string;
  mailboxes(): AgentName[];
}

type HeldEntries = Map<MessageId, InboxEntry>;

const ENDING = '.inbox.json';
/** How many ids of one mailbox a long-running process remembers. */
const MAX_REMEMBERED = 50_000;

/** An inbox that was read under its locks. */
interface OpenInbox extends InboxList {
  held: HeldEntries;
  /** Writes the inbox. If it was broken, the first write keeps a copy. */
  write(entries: readonly Pick<InboxEntry, 'text'>[]): void;
  writeHeld(): void;
}

/**
 * The inboxes of a broker directory, `<session>.inbox.json`, and the mail that our readers hold, `held/<alias>.held`. Each operation takes the
 * locks in the order of the original (the registry's, released as soon as it has the inbox's; then ours), reads, writes and releases.
 */
export class InboxStore {
  /** By mailbox: the ids that `look` has found in its inbox. */
  readonly #found = new Map<AgentName, Set<MessageId | null>>();
  #seen: { path: string; stamp: string; inbox: InboxList } | undefined;

  constructor(
    readonly root: string,
    readonly names: BrokerNames,
    readonly onStep: (step: string) => void = () => {},
  ) {}

  makeFolder(): void {
    const folder = `${this.root}/held`;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (error) {
      // Any other error is about the broker directory itself, and the caller explains it.
      if (codeOf(error) !== 'EEXIST') throw error;
      throw new Refusal('storage_failed', `${folder} is not a folder, so nothing was changed: move it away`);
    }
  }

  session(mailbox: AgentName): string {
    return readSessionId(this.names.fileOf(mailbox));
  }

  path(mailbox: AgentName): string {
    return `${this.root}/${this.session(mailbox)}${ENDING}`;
  }

  /** Every mailbox: those of the registry, inboxes of unregistered sessions, and those with held mail. */
  mailboxes(): AgentName[] {
    const known = this.names.mailboxes();
    const sessions = new Set(known.map((mailbox) => this.names.fileOf(mailbox)));
    const others = namesIn(this.root, ENDING).filter((session) => !sessions.has(session));
    const all = new Set([...known, ...others, ...namesIn(`${this.root}/held`, '.held')]);
    return [...all].filter((name) => AgentName.safeParse(name).success) as AgentName[];
  }

  /** Reads the inbox without its lock, which is safe because files are replaced whole. Reads it again only if it has changed. */
  look(mailbox: AgentName): InboxList {
    const path = this.path(mailbox);
    const stamp = stampOf(path);
    if (stamp === '') return { entries: [] };
    if (this.#seen?.path !== path || this.#seen.stamp !== stamp) {
      this.#seen = { path, stamp, inbox: readInbox(path) };
      const before = this.#found.get(mailbox);
      const found = before && before.size < MAX_REMEMBERED ? before : new Set<MessageId | null>();
      for (const { id } of this.#seen.inbox.entries) found.add(id);
      this.#found.set(mailbox, found);
    }
    return this.#seen.inbox;
  }

  /** Whether any `look` of this process found this message in the inbox. Then its sender has finished writing it. */
  wasFound(mailbox: AgentName, id: MessageId): boolean {
    return this.#found.get(mailbox)?.has(id) ?? false;
  }

  held(mailbox: AgentName): HeldEntries {
    return readHeld(this.#heldPath(mailbox));
  }

  /** Refuses an inbox that is not a plain file. Called before a message is accepted, because afterwards it could not be stored. */
  refuseOdd(mailbox: AgentName): void {
    const path = this.path(mailbox);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat && (!stat.isFile() || stat.size > LARGEST_LIST_BYTES)) throw noPlainFile(path);
  }

  /** S2. Appends the messages that neither wait nor are held. */
  append(mailbox: AgentName, added: readonly { id: MessageId; text: string }[]): void {
    this.#open(mailbox, (inbox) => {
      const waiting = new Set(inbox.entries.map(({ id }) => id));
      const missing = added.filter(({ id }) => !waiting.has(id) && !inbox.held.has(id));
      if (missing.length > 0) inbox.write([...inbox.entries, ...missing]);
    });
  }

  /** Keeps a copy of an inbox that another program left broken, and writes what can be saved of it. */
  mend(mailbox: AgentName): void {
    this.#open(mailbox, (inbox) => {
      if (inbox.broken !== undefined) inbox.write(inbox.entries);
    });
  }

  /** Renames are on disk when this returns. */
  flush(): void {
    flushFolder(this.root);
  }

  /**
   * T2. Moves entries from the inbox to held/, and returns all held entries. An entry without an id gets one first, in the inbox: if we die
   * while it is in both files, the id shows that both are the same entry.
   */
  take(mailbox: AgentName, ids: readonly MessageId[]): HeldEntries {
    return this.#open(mailbox, ({ entries, held, ...inbox }) => {
      const picked = new Map<InboxEntry, InboxEntry>();
      for (const [id, one] of pick(entries, ids, held)) {
        // An entry that was found by its fingerprint is not the message whose id it carries.
        if (one.id !== id || !picked.has(one)) picked.set(one, withId(one, id));
      }
      if ([...picked].some(([before, after]) => before !== after)) {
        inbox.write(entries.map((one) => picked.get(one) ?? one));
        this.onStep('T2 named');
      }
      for (const one of picked.values()) if (one.id && !held.has(one.id)) held.set(one.id, one);
      if (picked.size > 0) {
        inbox.writeHeld();
        this.onStep('T2 in both');
        inbox.write(entries.filter((one) => !picked.has(one)));
      }
      this.onStep('T2 held');
      return held;
    });
  }

  /** R1. Moves entries from held/ back into the inbox, in order of time. */
  putBack(mailbox: AgentName, ids: readonly MessageId[]): void {
    this.#open(mailbox, ({ entries, held, ...inbox }) => {
      const back = ids.flatMap((id) => held.get(id) ?? []);
      if (back.length === 0) return;
      for (const id of ids) held.delete(id);
      const waiting = new Set(entries.map(({ id }) => id));
      const missing = back.filter(({ id }) => !waiting.has(id));
      if (missing.length > 0) inbox.write(merged(missing, entries));
      this.flush();
      this.onStep('R in both');
      inbox.writeHeld();
    });
  }

  /** T4. Removes entries from held/ for good. */
  drop(mailbox: AgentName, ids: readonly MessageId[]): void {
    const path = this.#heldPath(mailbox);
    if (!existsSync(path)) return;
    withLock(this.#heldLock(mailbox), () => {
      const held = readHeld(path);
      if (ids.filter((id) => held.delete(id)).length > 0) writeHeld(path, held);
    });
  }

  /** Removes entries from the inbox and from held, and returns which were there. `aside`: their texts are kept in `repaired/`. */
  remove(mailbox: AgentName, ids: readonly MessageId[], aside = false): MessageId[] {
    return this.#open(mailbox, ({ entries, held, ...inbox }) => {
      // Set aside only entries with their id: an equal entry without an id may be a new message.
      const candidates = aside ? entries.filter(({ id }) => id !== null) : entries;
      const picked = pick(candidates, ids, held);
      const gone = new Set(picked.values());
      if (aside) this.#setAside(mailbox, [...gone]);
      if (gone.size > 0) inbox.write(entries.filter((one) => !gone.has(one)));
      const dropped = ids.filter((id) => held.delete(id));
      if (dropped.length > 0) inbox.writeHeld();
      return [...new Set([...picked.keys(), ...dropped])];
    });
  }

  /** Deletes the inbox and its held mail. Keeps the lock files, because other processes may wait for them. */
  empty(mailbox: AgentName): void {
    // Without reading them, because they may be files that we refuse to read.
    this.#locked(mailbox, (path, heldPath) => {
      for (const file of [path, heldPath]) ifThere(() => unlinkSync(file));
    });
  }

  asides(): string[] {
    const names = ifThere(() => readdirSync(`${this.root}/repaired`)) ?? [];
    return names.filter((name) => !name.startsWith('untold')).map((name) => `${this.root}/repaired/${name}`);
  }

  #setAside(mailbox: AgentName, gone: readonly InboxEntry[]): void {
    if (gone.length === 0) return;
    const folder = `${this.root}/repaired`;
    const entries = gone.map(({ entry }) => entry);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    appendLines(`${folder}/${mailbox}.again.jsonl`, entries);
  }

  /** Takes the locks, reads the inbox and the held entries once, and lets `act` write them. */
  #open<T>(mailbox: AgentName, act: (inbox: OpenInbox) => T): T {
    return this.#locked(mailbox, (path, heldPath) => {
      const inbox = readInbox(path);
      const held = readHeld(heldPath);
      let { broken } = inbox;
      const write = (entries: readonly Pick<InboxEntry, 'text'>[]): void => {
        writeInbox(this.root, path, entries, broken);
        broken = undefined;
      };
      return act({ ...inbox, held, write, writeHeld: () => writeHeld(heldPath, held) });
    });
  }

  #locked<T>(mailbox: AgentName, act: (path: string, heldPath: string) => T): T {
    this.makeFolder();
    const lockOf = (): string => `${this.root}/${this.session(mailbox)}.inbox.lock`;
    return withLockBehind(`${this.root}/registry.json.lock`, lockOf, (lock) =>
      withLock(this.#heldLock(mailbox), () => act(lock.replace(/\.lock$/, '.json'), this.#heldPath(mailbox))),
    );
  }

  #heldPath(mailbox: AgentName): string {
    return `${this.root}/held/${mailbox}.held`;
  }

  #heldLock(mailbox: AgentName): string {
    return `${this.root}/held/${mailbox}.lock`;
  }
}

/** The names of the files with this ending, with the ending removed. */
function namesIn(folder: string, ending: string): string[] {
  const names = ifThere(() => readdirSync(folder)) ?? [];
  return names.filter((name) => name.endsWith(ending)).map((name) => name.slice(0, -ending.length));
}

/** The held entries of a mailbox. Each line is an id, a tab and the text of the entry. No other program uses this file. */
function readHeld(path: string): HeldEntries {
  const held: HeldEntries = new Map();
  // Usually nothing is held, and there is no file.
  for (const line of existsSync(path) ? readFileLines(path) : []) {
    const [id = ''] = line.split('\t', 1);
    const text = line.slice(id.length + 1);
    const entry = jsonValue(text);
    const one = isEntry(entry) && inboxEntry(entry, text);
    if (isMessageId(id) && one) held.set(id, one);
  }
  return held;
}

/** Writes the held entries durably, because the caller then removes them from the inbox. Deletes the file if there are none. */
function writeHeld(path: string, held: HeldEntries): void {
  // In JSON a raw line break is only possible between tokens, so a space can replace it.
  const lines = [...held].map(([id, { text }]) => `${id}\t${text.replaceAll(/[\r\n]/g, ' ')}\n`);
  if (lines.length > 0) replaceDurably(path, lines.join(''));
  else ifThere(() => unlinkSync(path));
}
