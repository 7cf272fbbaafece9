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

/** How many waiting messages are read in one go: others want an answer too. */
const PAGE = 500;

export interface ExportedMaildirOptions extends Omit<MaildirOptions, 'exporter'> {
  /** Told what went wrong where nobody waits for an answer: a file that could not be written, a folder that could not be listed. */
  onTrouble?: (error: unknown) => void;
  /** How many copies may wait for their files before senders wait too. */
  mostUnexported?: number;
}

/**
 * Backchannel's Maildir for a server: a process that lives long and is asked by many at once. The journal first, the files later.
 *
 * put     P1 accept in the journal everything that came in this turn, in one transaction      P2 flush the journal's log once      ← stored
 * export  F1 write tmp/<id>.late      F2 `drafted` in the journal      F3 rename to new/ or quiet/      F4 `exported` in the journal
 * take    T1 claim in the journal: a copy without a file comes from there, and never gets one; any other as in send.ts
 *
 * The log that was flushed is the proof of `stored`; the files follow, and are what other programs see. They are written by one process only, the
 * one that holds the export lock: by the export worker of a living relay, or by `heal` of any command after it died.
 *
 * | killed                 | files               | ledger              | answered | then                                        |
 * |------------------------|---------------------|---------------------|----------|---------------------------------------------|
 * | before P1 commits      | –                   | –                   | no       | a retry sends it                            |
 * | P1, P2                 | –                   | stored, unexported  | no       | heal exports it; a retry gets the same id   |
 * | after P2               | –                   | stored, unexported  | yes      | heal exports it                             |
 * | F1, half a draft       | tmp/.late           | stored, unexported  | yes      | heal writes the draft again                 |
 * | F2 before the commit   | tmp/.late           | stored, unexported  | yes      | the same; or a claim takes it                |
 * | F2 after the commit    | tmp/.late           | stored, drafted     | yes      | heal renames it; a claim finds it in tmp/   |
 * | F1, then the copies fall into two batches | new/ of one, tmp/.late of the other: two links to one file | stored; stored, unexported | yes | F1 unlinks that draft and never overwrites it |
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
      noticed: async (mailbox, changes) => void (await this.#takeIn(mailbox, changes)),
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
      for (const { mailbox, attention } of copies) if (!isQuiet(attention)) this.#watchers.tell(mailbox, { seq, text });
    }
    return { ...accepted, text };
  }

  #committed(outcomes: (Acceptance | Refusal)[]): void {
    let copies = 0;
    for (const one of outcomes) {
      if (one instanceof Refusal || one.seq === undefined) continue;
      copies += one.copies.length;
      if (this.#exporter.isOurs) this.#watchers.tellsItself(one.seq);
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
    // Another program may have left it a moment ago.
    return (await this.options.journal.copy(mailbox, id)) ? null : super.read(mailbox, id);
  }

  /** A watched mailbox is looked after all the time. */
  override async adopt(mailbox: AgentName): Promise<number> {
    if (this.#watchers.has(mailbox)) return 0;
    return (await this.#takeIn(mailbox, await this.#exporter.look(mailbox))).length;
  }

  override async release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]> {
    const released = await super.release(claim, ids, because, delayMs, begun);
    if (!delayMs) await this.#watchers.tellOf(claim.mailbox, released);
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
    if (isRaised) await this.#watchers.tellOf(mailbox, [id]);
    return isRaised;
  }

  override async heal(): Promise<void> {
    const abandoned = await this.options.journal.abandoned();
    await super.heal();
    for (const { mailbox, id } of abandoned) await this.#watchers.tellOf(mailbox, [id]);
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

  /** Accepts nothing more, and ends when everything that was accepted has its file. */
  override async close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#group.settled();
    await this.#exporter.close();
  }

  /** Everything that waits, in order of arrival, with what other programs left. */
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

  /** Takes in what other programs did, and tells of what is new. Returns what was adopted. */
  async #takeIn(mailbox: AgentName, { missing, strangers, arrived }: Changes): Promise<MessageId[]> {
    const adopted =
      missing.length + strangers.length > 0 ? await this.healer.reconcile(mailbox, { missing, strangers }) : [];
    await this.#watchers.tellOf(mailbox, [...new Set([...arrived, ...adopted])]);
    return adopted;
  }
}

/** Those who wait for mail. Each is told with the mail itself, so that nobody has to look. */
class Watchers {
  readonly #watchers = new Map<AgentName, Set<(mail: Mail) => void>>();
  /** The numbers of unexported messages of which this process tells by itself. Others in this home may accept some too. */
  readonly #ours = new Set<number>();

  constructor(
    readonly journal: MailboxJournal,
    readonly exporter: Exporter,
    readonly onTrouble: (error: unknown) => void,
  ) {}

  has(mailbox: AgentName): boolean {
    // Where nobody listens at all, the name need not be looked at: among a thousand it lies in no cache.
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

  tell(mailbox: AgentName, mail: Mail): void {
    for (const watcher of this.#watchers.get(mailbox) ?? []) watcher(mail);
  }

  /** These wait (again): who watches is told, if they are loud. */
  async tellOf(mailbox: AgentName, ids: MessageId[]): Promise<void> {
    if (!this.#watchers.has(mailbox) || ids.length === 0) return;
    this.exporter.expect(mailbox, ids);
    for (const id of ids) {
      const one = await this.journal.waitingCopy(mailbox, id);
      if (!one || one.quiet) continue;
      this.#ours.add(one.seq);
      this.tell(mailbox, { seq: one.seq, text: one.text });
    }
  }

  tellsItself(seq: number): void {
    this.#ours.add(seq);
  }

  /** These have their files now: what another process accepted is news here. */
  async exported(copies: CopyNumber[]): Promise<void> {
    for (const { seq, mailbox } of copies) {
      if (this.#ours.has(seq) || !this.#watchers.has(mailbox)) continue;
      const [one] = await this.journal.waitingCopies(mailbox, seq - 1, 1);
      if (one?.seq === seq && !one.quiet) this.tell(mailbox, { seq, text: one.text });
    }
    // They are exported in order, so older ones are done with. One message may have copies on both sides of a batch.
    const upTo = copies.at(-1)?.seq ?? 0;
    for (const seq of this.#ours) {
      if (seq >= upTo) break;
      this.#ours.delete(seq);
    }
  }

  allExported(): void {
    this.#ours.clear();
  }

  #begin(mailbox: AgentName): void {
    // Asked now, though answered later: what comes from now on is news.
    this.journal
      .newest()
      .then((seq) => this.#watchers.has(mailbox) && this.exporter.watch(mailbox, seq))
      .catch(this.onTrouble);
  }
}
