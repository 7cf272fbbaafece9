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

/** Moves drafts to the folders where they wait, and keeps a mark for each send that may be half done. */
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

  /** S3 and S4. Any process may do it, any number of times: each rename has one winner. */
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

  /** The message is stored, so a mark that cannot be deleted is no error: the next command checks it again. */
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
  /** Computes the attention and the lineage of a copy that another program left here. The values in its file are not believed. */
  judge: (mailbox: AgentName, message: Message) => Promise<Judgement>;
  now: () => number;
  /** In a server: the worker that exports mail and lists folders, so that the main thread does neither. */
  exporter?: { isOurs: boolean; list(folder: string): Promise<MessageId[]>; wake(): void };
  /** Called at each step after which a crash leaves another state. Tests kill the process here. */
  onStep?: (step: string) => void;
}

/**
 * The sender's half of Backchannel's Maildir; maildir.ts has the rest. The journal decides what is accepted.
 *
 * send   S1 write and flush tmp/<id>, link it into every recipient's tmp/ and into sending/
 *        S2 accept in the journal                                    ← accepted, once per key
 *        S3 rename each tmp/<id> to new/ or quiet/                  ← published, at most once: a rename has one winner
 *        S4 flush those folders; remove the mark in sending/        ← stored
 * take   T1 claim in the journal   T2 rename to held/   T3 show and settle in the journal   T4 delete, or move to cur/
 *
 * Killed in S1: nobody saw the message; the draft is removed later. After S2: `heal` finds the mark in sending/ and publishes the
 * missing copies. In T1, T2: the journal names the dead holder; the copy waits again. In T3 before the commit: the copy waits again,
 * marked as redelivered. In T4: the row is settled; the file is swept. docs/protocol/spool.md has the whole matrix.
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
    // A draft has one writer: a second `put` of the same id waits for the first, and then finds its row.
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

  /** If nothing is wrong, this lists one folder and reads one index, however many mailboxes and messages there are. */
  async heal(): Promise<void> {
    // The home of a long-running process may have been removed meanwhile: make it again.
    mkdirSync(this.options.root, { recursive: true, mode: 0o700 });
    this.options.journal.importOldTray(this.options.exporter?.isOurs);
    const { held, fresh, unexported } = await this.options.journal.troubles();
    if (held || fresh || unexported || this.#isSending()) await this.healer.heal();
  }

  /** Nothing to do: `put` returns after every copy has its file. */
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

  /** The earlier acceptance of this key or id, if any. It gets no draft: that could be published after the copy was taken. */
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

  /** Deletes drafts that nobody will publish. `heal` deletes those that cannot be deleted now when they are an hour old. */
  #discard(paths: string[]): void {
    for (const path of paths) {
      try {
        this.files.delete(path);
      } catch {
        // Only the error of the send itself is reported.
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
