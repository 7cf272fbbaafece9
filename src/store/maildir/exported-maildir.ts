import { isQuiet } from '../../core/attention/attention.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import type { CopyNumber, MailboxJournal, WaitingCopy, Acceptance, Entry, Mail } from '../../core/ports/journal.ts';
import { messageFrom } from '../journal/rows.ts';
import type { Changes } from './export-messages.ts';
import { Exporter, MOST_UNEXPORTED } from './exporter.ts';
import { GroupCommit } from './group-commit.ts';
import { Maildir } from './maildir.ts';
import type { MaildirOptions } from './send.ts';
import { oldestFirst } from './files.ts';
import type { Claim, WaitingMessage, Watch } from '../../core/ports/mailboxes.ts';

/** Waiting messages read at a time: other requests get their turn between two pages. */
const PAGE = 500;

export interface ExportedMaildirOptions extends Omit<MaildirOptions, 'exporter'> {
  /** Called with errors that no caller awaits: a file that could not be written, a folder that could not be listed. */
  onTrouble?: (error: unknown) => void;
  /** The most copies that may wait for their files; beyond that, senders wait too. */
  mostUnexported?: number;
}

/**
 * Backchannel's Maildir for a server: a long-running process with many concurrent callers. It writes the journal first and the files later.
 *
 * put     P1 accept all entries of this turn in the journal, in one transaction      P2 flush the journal's log once      ← stored
 * export  F1 write tmp/<id>.late      F2 `drafted` in the journal      F3 rename to new/ or quiet/      F4 `exported` in the journal
 * take    T1 claim in the journal: a copy without a file is read from there and never gets one; any other as in send.ts
 *
 * The flushed log is the proof of `stored`. The files, which other programs read, follow. Only the process that holds the export lock writes
 * them: the export worker of a living relay, or `heal` of any command after the relay died.
 *
 * | killed                 | files               | ledger              | answered | then                                        |
 * |------------------------|---------------------|---------------------|----------|---------------------------------------------|
 * | before P1 commits      | –                   | –                   | no       | a retry sends it                            |
 * | P1, P2                 | –                   | stored, unexported  | no       | heal exports it; a retry gets the same id   |
 * | after P2               | –                   | stored, unexported  | yes      | heal exports it                             |
 * | F1, half a draft       | tmp/.late           | stored, unexported  | yes      | heal writes the draft again                 |
 * | F2 before the commit   | tmp/.late           | stored, unexported  | yes      | the same; or a reader claims it              |
 * | F2 after the commit    | tmp/.late           | stored, drafted     | yes      | heal renames it; a claim finds it in tmp/   |
 * | F1, and the message's copies are in two batches | new/ of one, tmp/.late of the other: two links to one file | stored; stored, unexported | yes | F1 unlinks that draft and never overwrites it |
 * | F2, while a reader holds one copy | the same | drafted; held | yes | the same, once that copy is released |
 * | F3                     | new/                | stored, drafted     | yes      | a rename has one winner; heal says `exported` |
 * | F4                     | new/                | stored              | yes      | nothing to do                               |
 * | T1 of a copy without a file | – (or tmp/.late) | held by the dead  | –        | heal: stored, unexported again, marked      |
 * | settled, then killed   | – (or tmp/.late)    | settled             | –        | never gets a file; a later claim there, or the next restart, removes the draft |
 * | settled with keep, before cur/ | – (or tmp/.keep) | settled        | –        | the record is in the journal; a later claim there moves a whole file to cur/ |
 * | any, and the journal is lost or damaged | what was exported | a fresh one | yes | **what had no file yet is lost** (or in the damaged one, kept beside) |
 * | power cut after P2     | any, some without text | stored, unexported or drafted or exported | yes | `recount`: what has no whole file gets one |
 * | power cut after F2, lost in the journal | new/ | stored, unexported  | yes      | `recount` finds the file                    |
 * | power cut after a settle | –                 | stored again, if nobody flushed | – | at least once, as in send.ts        |
 */
export class ExportedMaildir extends Maildir {
  readonly #exporter: Exporter;
  readonly #group: GroupCommit;
  readonly #watchers: Watchers;
  #closing: Promise<void> | null = null;

  constructor({ onTrouble = () => {}, mostUnexported = MOST_UNEXPORTED, ...options }: ExportedMaildirOptions) {
    const { root, journal } = options;
    const exporter = new Exporter(root, journal, mostUnexported);
    super({ ...options, exporter });
    journal.tuneForServer();
    this.#exporter = exporter;
    this.#watchers = new Watchers(journal, exporter, onTrouble);
    this.#group = new GroupCommit(root, journal, (outcomes) => this.#committed(outcomes));
    exporter.start({
      exported: (copies) => this.#watchers.exported(copies),
      noticed: async (mailbox, changes) => void (await this.#adoptChanges(mailbox, changes)),
      idle: () => this.#watchers.allExported(),
      trouble: onTrouble,
    });
  }

  override async put(entry: Entry): Promise<Acceptance> {
    await this.#exporter.room();
    const text = JSON.stringify(entry.message);
    const accepted = await this.#group.put({ ...entry, text });
    if (!accepted.first) return accepted;
    const { seq, copies } = accepted;
    if (seq !== undefined) {
      for (const { mailbox, attention } of copies) {
        if (!isQuiet(attention)) this.#watchers.notify(mailbox, { seq, text });
      }
    }
    return { ...accepted, text };
  }

  #committed(outcomes: (Acceptance | Refusal)[]): void {
    let copies = 0;
    for (const one of outcomes) {
      if (one instanceof Refusal || one.seq === undefined) continue;
      copies += one.copies.length;
      if (this.#exporter.isOurs) this.#watchers.notifiesOf(one.seq);
    }
    if (copies > 0) this.#exporter.added(copies);
  }

  override async peek(mailbox: AgentName): Promise<WaitingMessage[]> {
    const waiting = await this.#waiting(mailbox);
    return oldestFirst(waiting.map(({ text, quiet }) => ({ message: messageFrom(text), quiet })));
  }

  override async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    return (await this.#waiting(mailbox)).flatMap(({ id, quiet }) => (loudOnly && quiet ? [] : [id]));
  }

  override async read(mailbox: AgentName, id: MessageId): Promise<WaitingMessage | null> {
    const waiting = await this.options.journal.waitingCopy(mailbox, id);
    if (waiting) return { message: messageFrom(waiting.text), quiet: waiting.quiet };
    // No row: another program may have added it just now.
    return (await this.options.journal.copy(mailbox, id)) ? null : super.read(mailbox, id);
  }

  /** Does nothing for a watched mailbox: the worker checks it all the time. */
  override async adopt(mailbox: AgentName): Promise<number> {
    if (this.#watchers.has(mailbox)) return 0;
    return (await this.#adoptChanges(mailbox, await this.#exporter.look(mailbox))).length;
  }

  override async release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]> {
    const released = await super.release(claim, ids, because, delayMs, begun);
    if (!delayMs) await this.#watchers.notifyWaiting(claim.mailbox, released);
    return released;
  }

  override watch(mailbox: AgentName, onArrival: (mail?: Mail) => void): Watch {
    return this.#watchers.watch(mailbox, onArrival);
  }

  override async lower(mailbox: AgentName, id: MessageId): Promise<void> {
    const copy = await this.options.journal.copy(mailbox, id);
    if (!copy) return;
    await this.options.journal.reconsider(mailbox, id, { ...copy.attention, injection: 'tool_mailbox' });
    await super.lower(mailbox, id);
  }

  override async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const waiting = await this.options.journal.waitingCopy(mailbox, id);
    const moved = await super.raise(mailbox, id);
    const isRaised = moved || (waiting?.quiet ?? false);
    if (isRaised) await this.#watchers.notifyWaiting(mailbox, [id]);
    return isRaised;
  }

  override async heal(): Promise<void> {
    const abandoned = await this.options.journal.abandoned();
    await super.heal();
    for (const { mailbox, id } of abandoned) await this.#watchers.notifyWaiting(mailbox, [id]);
  }

  override async flush(): Promise<void> {
    await this.#group.settled();
    await this.#exporter.finish();
  }

  override async remove(mailbox: AgentName): Promise<void> {
    const waiting = await this.#waiting(mailbox);
    await super.remove(mailbox);
    for (const { id } of waiting) await this.options.journal.lost(mailbox, id);
  }

  /** Returns when every accepted copy has its file, except those that cannot be exported now. */
  override async close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#group.settled();
    await this.#exporter.close();
  }

  /** All waiting copies in order of arrival, including those that other programs added. */
  async #waiting(mailbox: AgentName): Promise<WaitingCopy[]> {
    await this.adopt(mailbox);
    const all: WaitingCopy[] = [];
    for (;;) {
      const page = await this.options.journal.waitingCopies(mailbox, all.at(-1)?.seq ?? 0, PAGE);
      all.push(...page);
      if (page.length < PAGE) return all;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** Brings the journal into line with what other programs did, and notifies watchers of new mail. Returns the adopted ids. */
  async #adoptChanges(mailbox: AgentName, { missing, strangers, arrived }: Changes): Promise<MessageId[]> {
    const adopted =
      missing.length + strangers.length > 0 ? await this.healer.reconcile(mailbox, { missing, strangers }) : [];
    await this.#watchers.notifyWaiting(mailbox, [...new Set([...arrived, ...adopted])]);
    return adopted;
  }
}

/** The watchers of all mailboxes. Each gets the mail itself, so that it need not read the mailbox. */
class Watchers {
  readonly #watchers = new Map<AgentName, Set<(mail: Mail) => void>>();
  /**
   * The sequence numbers of unexported messages of which this process has notified watchers. Other processes may accept messages in this
   * home too: their messages are not in this set.
   */
  readonly #notified = new Set<number>();

  constructor(
    readonly journal: MailboxJournal,
    readonly exporter: Exporter,
    readonly onTrouble: (error: unknown) => void,
  ) {}

  has(mailbox: AgentName): boolean {
    // The size first: without any watcher this avoids hashing the name, which among a thousand is in no processor cache.
    return this.#watchers.size > 0 && this.#watchers.has(mailbox);
  }

  watch(mailbox: AgentName, onArrival: (mail: Mail) => void): Watch {
    const watchers = this.#watchers.get(mailbox) ?? new Set();
    const watcher = (mail: Mail): void => onArrival(mail);
    if (watchers.size === 0) this.#begin(mailbox);
    this.#watchers.set(mailbox, watchers.add(watcher));
    return {
      close: () => {
        if (!watchers.delete(watcher) || watchers.size > 0) return;
        this.#watchers.delete(mailbox);
        this.exporter.unwatch(mailbox);
      },
    };
  }

  notify(mailbox: AgentName, mail: Mail): void {
    for (const watcher of this.#watchers.get(mailbox) ?? []) watcher(mail);
  }

  /** Notifies watchers of those of these copies that wait and are loud. */
  async notifyWaiting(mailbox: AgentName, ids: MessageId[]): Promise<void> {
    if (!this.#watchers.has(mailbox) || ids.length === 0) return;
    this.exporter.expect(mailbox, ids);
    for (const id of ids) {
      const one = await this.journal.waitingCopy(mailbox, id);
      if (!one || one.quiet) continue;
      this.#notified.add(one.seq);
      this.notify(mailbox, { seq: one.seq, text: one.text });
    }
  }

  /** Call for a message of which this process notifies watchers itself, so that `exported` does not do it again. */
  notifiesOf(seq: number): void {
    this.#notified.add(seq);
  }

  /** Call when these copies have their files. Notifies watchers of messages that another process accepted. */
  async exported(copies: CopyNumber[]): Promise<void> {
    for (const { seq, mailbox } of copies) {
      if (this.#notified.has(seq) || !this.#watchers.has(mailbox)) continue;
      const [one] = await this.journal.waitingCopies(mailbox, seq - 1, 1);
      if (one?.seq === seq && !one.quiet) this.notify(mailbox, { seq, text: one.text });
    }
    // Copies are exported in order, so older messages are done. The last message may have more copies in the next batch.
    const upTo = copies.at(-1)?.seq ?? 0;
    for (const seq of this.#notified) {
      if (seq >= upTo) break;
      this.#notified.delete(seq);
    }
  }

  allExported(): void {
    this.#notified.clear();
  }

  #begin(mailbox: AgentName): void {
    // The query is sent now, although its answer comes later: copies accepted from now on count as arrivals.
    this.journal
      .newest()
      .then((seq) => this.#watchers.has(mailbox) && this.exporter.watch(mailbox, seq))
      .catch(this.onTrouble);
  }
}
