import { existsSync, statSync, watch } from 'node:fs';
import { isQuiet } from '../../core/attention/attention.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import type { CopyRecord, Settlement } from '../../core/ports/journal.ts';
import type { Folder } from './files.ts';
import { MaildirSender } from './send.ts';
import { MaildirTaker, TakeShow } from './take.ts';
import { oldestFirst } from './files.ts';
import type { Claim, Lease, Show, Mailboxes, WaitingMessage, Watch } from '../../core/ports/mailboxes.ts';
import type { FSWatcher } from 'node:fs';

/** The folders in which a copy waits. `new` comes twice: a copy that is lowered or raised during the search is still found. */
const WAITING = ['new', 'quiet', 'new'] as const;

/**
 * Backchannel's Maildir. The journal decides who gets a copy. send.ts lists the steps of send and take, and has the sender's half.
 */
export class Maildir extends MaildirSender implements Mailboxes {
  readonly #taker = new MaildirTaker(this.files, this.healer, this.options);

  async peek(mailbox: AgentName): Promise<WaitingMessage[]> {
    const before = this.files.ids(mailbox, 'quiet');
    const loud = this.#waitingIn(mailbox, 'new', this.files.ids(mailbox, 'new'));
    const quiet = this.#waitingIn(mailbox, 'quiet', this.files.ids(mailbox, 'quiet'));
    if (before.length + quiet.length === 0) return oldestFirst(loud);
    // A copy that is lowered between the two listings is in both, one that is raised may be in neither. A raised copy was in
    // `before`, so only those ids are read again: listing `new` a second time would cost more.
    const waiting = new Map([...loud, ...quiet].map((one) => [one.message.id, one]));
    const gone = before.filter((id) => !waiting.has(id));
    return oldestFirst([...waiting.values(), ...this.#waitingIn(mailbox, 'new', gone)]);
  }

  #waitingIn(mailbox: AgentName, folder: 'new' | 'quiet', ids: MessageId[]): WaitingMessage[] {
    const waiting: WaitingMessage[] = [];
    const quiet = folder === 'quiet';
    for (const id of ids) {
      const message = this.#readable(mailbox, folder, id);
      if (message) waiting.push({ message, quiet });
    }
    return waiting;
  }

  async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    if (loudOnly) return this.files.ids(mailbox, 'new');
    // A copy that is raised between the two listings is in neither, but it was in `quiet` before.
    const quiet = this.files.ids(mailbox, 'quiet');
    const now = new Set([...this.files.ids(mailbox, 'new'), ...this.files.ids(mailbox, 'quiet')]);
    const raised = quiet.filter((id) => !now.has(id) && existsSync(this.files.path(mailbox, 'new', id)));
    return [...now, ...raised];
  }

  async read(mailbox: AgentName, id: MessageId): Promise<WaitingMessage | null> {
    for (const folder of WAITING) {
      const message = this.#readable(mailbox, folder, id);
      if (message) return { message, quiet: folder === 'quiet' };
    }
    return null;
  }

  async adopt(mailbox: AgentName): Promise<number> {
    // Other programs can write only into a mailbox that exists.
    this.files.make(mailbox);
    return this.healer.adopt(mailbox);
  }

  async claim(
    mailbox: AgentName,
    ids: MessageId[],
    lease: Lease,
    read?: ReadonlyMap<MessageId, Message>,
  ): Promise<Claim> {
    return this.#taker.claim(mailbox, ids, lease, read);
  }

  async renew(claim: Pick<Claim, 'mailbox' | 'owner'>, lease: Lease): Promise<boolean> {
    return (await this.options.journal.renew(claim.mailbox, claim.owner, this.options.now() + lease.ms)) > 0;
  }

  async settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean> {
    const { mailbox, owner } = claim;
    const showing = new TakeShow(show);
    let settled: MessageId[] | null;
    try {
      this.step('T3 settle');
      settled = await this.options.journal.settle(mailbox, owner, ids, settlement, () => {
        showing.run();
        this.step('T3 shown');
      });
    } catch (error) {
      // If the disk refuses the release too, the end of this process or of the lease frees the copies.
      await this.release(claim, ids, showing.because, undefined, showing.isSeen).catch(() => {});
      throw showing.explained(error, this.options.root);
    }
    if (!settled) return false;
    this.step('T4 sweep');
    for (const id of settled) {
      const swept = this.healer.sweep(mailbox, id, settlement.keep ?? false);
      if (!swept && settlement.keep) await this.healer.keepFileless(mailbox, id);
      this.step('T4 swept');
    }
    return true;
  }

  async release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]> {
    return this.#taker.release(claim, ids, because, delayMs, begun);
  }

  async lower(mailbox: AgentName, id: MessageId): Promise<void> {
    this.files.move(this.files.path(mailbox, 'new', id), this.files.path(mailbox, 'quiet', id));
  }

  async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const copy = await this.options.journal.copy(mailbox, id);
    if (!copy || copy.settledAt !== null) return false;
    // The journal first: a reader that takes the copy and puts it back reads the folder from there.
    if (isQuiet(copy.attention)) {
      await this.options.journal.reconsider(mailbox, id, { ...copy.attention, injection: 'notify' });
    }
    this.step('U no longer quiet');
    const moved = this.files.move(this.files.path(mailbox, 'quiet', id), this.files.path(mailbox, 'new', id));
    this.step('U raised');
    if (moved) this.files.flushFolder(this.files.folder(mailbox, 'new'));
    return moved;
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    const before = await this.options.journal.withdraw(id, by);
    this.step('W withdrawn');
    const after: CopyRecord[] = [];
    for (const copy of before) {
      const waiting = copy.state === 'stored' || (copy.state === 'held' && copy.owner === null);
      // The folders in the order in which a copy moves through them, so that a moving copy is found. A send that died may have left a draft.
      const places = [
        this.files.draft(copy.mailbox, id),
        ...(['tmp', 'new', 'quiet', 'held'] as const).map((place) => this.files.path(copy.mailbox, place, id)),
      ];
      const removed = waiting && (places.some((path) => this.files.delete(path)) || copy.fileless);
      if (waiting && !removed) await this.options.journal.lost(copy.mailbox, id);
      after.push(waiting && !removed ? { ...copy, state: 'gone' } : copy);
    }
    return after;
  }

  watch(mailbox: AgentName, onArrival: () => void): Watch {
    this.files.make(mailbox);
    return watchFolder(this.files.folder(mailbox, 'new'), onArrival);
  }

  async asides(): Promise<string[]> {
    return this.files.asides();
  }

  async remove(mailbox: AgentName): Promise<void> {
    this.files.remove(mailbox);
  }

  #readable(mailbox: AgentName, folder: Folder, id: MessageId): Message | null {
    const reading = this.files.read(mailbox, folder, id);
    if (reading === 'unreadable') this.#setAside(mailbox, folder, id);
    return reading === 'unreadable' || reading === 'shut' ? null : reading;
  }

  #setAside(mailbox: AgentName, folder: Folder, id: MessageId): void {
    this.files.setAsideIfOld(mailbox, folder, id, this.options.now());
  }
}

/** How often a watcher checks the folder's time, in case a file event was lost. */
const LOOK_MS = 2000;

/** Calls back whenever a file may have come into the folder, until closed. */
export function watchFolder(folder: string, onArrival: () => void): Watch {
  let closed = false;
  const arrived = (): void => {
    if (!closed) onArrival();
  };
  let seen = statSync(folder).mtimeMs;
  const watcher = fileEvents(folder, arrived);
  const timer = setInterval(() => {
    const now = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? seen;
    if (now !== seen) arrived();
    seen = now;
  }, LOOK_MS);
  return {
    close() {
      closed = true;
      clearInterval(timer);
      watcher?.close();
    },
  };
}

/** Listens to file events. Null if the system has no watch left: then only the timer checks the folder. */
function fileEvents(folder: string, arrived: () => void): FSWatcher | null {
  try {
    return watch(folder, arrived);
  } catch {
    return null;
  }
}
