import { mkdirSync } from 'node:fs';
import { isQuiet } from '../../core/attention/attention.ts';
import type { MessageId, AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { isMissing, storageTrouble, explained } from '../../core/disk.ts';
import type { Copy, Acceptance, Entry, MailboxJournal } from '../../core/ports/journal.ts';
import type { Attention } from '../../core/attention/attention.ts';
import type { Lineage, Message } from '../../core/message.ts';
import { sameOrConflict } from '../journal/rules.ts';
import { MaildirFiles, idsIn } from './files.ts';
import { MaildirHealer } from './heal.ts';

/** Brings drafts to where they wait, and keeps the marks of those that are on their way. */
export class MaildirPublisher {
  constructor(
    readonly files: MaildirFiles,
    readonly options: MaildirOptions,
  ) {}

  /** The folder of the marks. */
  get sending(): string {
    return `${this.options.root}/sending`;
  }

  mark(id: MessageId): string {
    return `${this.sending}/${id}.json`;
  }

  /** The mark is a link to the draft: while it exists, a send may be half done. */
  linkMark(draft: string, mark: string): void {
    try {
      this.files.link(draft, mark);
    } catch (error) {
      if (!isMissing(error)) throw error;
      mkdirSync(this.sending, { recursive: true, mode: 0o700 });
      this.files.link(draft, mark);
    }
  }

  /** S3 and S4. Anyone may do it, any number of times: each rename has one winner. */
  publish(id: MessageId, copies: Copy[]): void {
    for (const { mailbox, attention } of copies) {
      this.files.make(mailbox);
      const place = isQuiet(attention) ? 'quiet' : 'new';
      this.files.move(this.files.path(mailbox, 'tmp', id), this.files.path(mailbox, place, id));
      this.#step('S3 published one');
    }
    for (const { mailbox, attention } of copies) {
      this.files.flushFolder(this.files.folder(mailbox, isQuiet(attention) ? 'quiet' : 'new'));
      this.#step('S4 flushed one');
    }
    this.#deleteMark(id);
    this.#step('S5 stored');
  }

  /** It is stored: a mark that stays is only looked at once more by the next command. */
  #deleteMark(id: MessageId): void {
    try {
      this.files.delete(this.mark(id));
    } catch (error) {
      if (!(storageTrouble(error) instanceof Refusal)) throw error;
    }
  }

  #step(name: string): void {
    this.options.onStep?.(name);
  }
}

export interface Judgement {
  attention: Attention;
  lineage: Lineage | undefined;
}

export interface MaildirOptions {
  /** The home. */
  root: string;
  journal: MailboxJournal;
  /** How a copy is to be seen that another program left here, and where it is in its exchange: nothing it says is believed. */
  judge: (mailbox: AgentName, message: Message) => Promise<Judgement>;
  now: () => number;
  /** In a server: a worker that lists folders and exports mail, so that we need not. */
  exporter?: { isOurs: boolean; list(folder: string): Promise<MessageId[]>; wake(): void };
  /** Told before each step that a crash could separate from the next one. Tests die here. */
  onStep?: (step: string) => void;
}

/**
 * As much of Backchannel's Maildir as a send needs; maildir.ts has the rest. The journal is the arbiter.
 *
 * send   S1 write and flush tmp/<id>, link it into every recipient's tmp/ and into sending/
 *        S2 accept in the journal                                    ← accepted, once per key
 *        S3 rename each tmp/<id> to new/ or quiet/                  ← published, at most once: a rename has one winner
 *        S4 flush those folders; remove the mark in sending/        ← stored
 * take   T1 claim in the journal   T2 rename to held/   T3 show and settle in the journal   T4 delete, or move to cur/
 *
 * Killed in S1: nobody saw it; the draft is removed later. After S2: `heal` finds the mark in sending/ and publishes what is
 * missing. In T1, T2: the journal knows the dead holder; the copy waits again. In T3 before the commit: it comes again, marked.
 * In T4: the row is settled; the file is swept. ARCHITECTURE.md has the whole matrix.
 */
export class MaildirSender {
  readonly #putting = new Map<MessageId, Promise<void>>();
  readonly #publisher: MaildirPublisher;
  protected readonly files: MaildirFiles;
  protected readonly healer: MaildirHealer;

  constructor(readonly options: MaildirOptions) {
    this.files = new MaildirFiles(options.root);
    this.#publisher = new MaildirPublisher(this.files, options);
    this.healer = new MaildirHealer(this.files, this.#publisher, options);
  }

  async put(entry: Entry): Promise<Acceptance> {
    const { id } = entry.message;
    // A draft has one writer: anyone who brings an id that is just being put waits, and then finds it known.
    while (this.#putting.has(id)) await this.#putting.get(id);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#putting.set(id, promise);
    try {
      return await this.#put(entry);
    } finally {
      this.#putting.delete(id);
      resolve();
    }
  }

  /** Cheap when nothing is wrong: one folder is listed and one index is read, however many mailboxes and messages there are. */
  async heal(): Promise<void> {
    // Anyone who stays may find that its home was removed: it begins again.
    mkdirSync(this.options.root, { recursive: true, mode: 0o700 });
    this.options.journal.importOldTray(this.options.exporter?.isOurs);
    const { held, fresh, unexported } = await this.options.journal.troubles();
    if (held || fresh || unexported || this.#isSending()) await this.healer.heal();
  }

  /** Here every copy has its place before it is accepted. */
  async flush(): Promise<void> {}

  async close(): Promise<void> {}

  #isSending(): boolean {
    return idsIn(this.#publisher.sending).length > 0;
  }

  async #put(entry: Entry): Promise<Acceptance> {
    const accepted = (await this.#earlier(entry)) ?? (await this.#accept(entry));
    this.#doing('it is accepted, and the next command finishes it', () => {
      this.step('S3 publish');
      this.#publisher.publish(accepted.message.id, accepted.copies);
    });
    return accepted;
  }

  /** What is known needs no draft; and a draft of it could come back after the copy was taken. */
  async #earlier(entry: Entry): Promise<Acceptance | null> {
    const { journal } = this.options;
    const { message, key } = entry;
    const keyed = key && (await journal.underKey(message.from as AgentName, key));
    if (keyed) return sameOrConflict(keyed, entry);
    if (entry.fresh) return null;
    const trace = await journal.trace(message.id);
    return trace && { message: trace.message, copies: trace.copies, first: false };
  }

  /** S1 and S2. */
  async #accept(entry: Entry): Promise<Acceptance> {
    const { message, copies } = entry;
    const drafts = copies.map((copy) => this.files.path(copy.mailbox, 'tmp', message.id));
    const mark = this.#publisher.mark(message.id);
    let accepted: Acceptance;
    try {
      this.step('S1 draft');
      this.#doing('nothing was stored', () => this.#draft(copies, drafts, mark, JSON.stringify(message)));
      this.step('S2 accept');
      accepted = await this.options.journal.accept(entry);
    } catch (error) {
      this.#discard([...drafts, mark]);
      throw error;
    }
    this.step('S2 accepted');
    if (accepted.message.id !== message.id) this.#discard([...drafts, mark]);
    return accepted;
  }

  #draft(copies: Copy[], drafts: string[], mark: string, text: string): void {
    const [first, ...others] = drafts;
    if (first === undefined) return;
    for (const copy of copies) this.files.make(copy.mailbox);
    this.files.write(first, text);
    this.step('S1 written');
    for (const other of others) {
      this.files.link(first, other);
      this.step('S1 linked one');
    }
    this.#publisher.linkMark(first, mark);
  }

  /** Drafts that nobody will publish. What cannot be deleted now is swept an hour later. */
  #discard(paths: string[]): void {
    for (const path of paths) {
      try {
        this.files.delete(path);
      } catch {
        // The reason why the send failed is the one to report.
      }
    }
  }

  protected step(name: string): void {
    this.options.onStep?.(name);
  }

  #doing(outcome: string, act: () => void): void {
    try {
      act();
    } catch (error) {
      throw explained(error, this.options.root, outcome);
    }
  }
}
