import type { AgentName, MessageId } from '../../protocol/names.ts';
import { explained } from '../disk.ts';
import type { Acceptance, Copy, Entry } from '../ledger/ledger.ts';
import { sameOrConflict } from '../ledger/rules.ts';
import type { MaildirFiles } from './maildir-files.ts';
import type { MaildirPublisher } from './maildir-publish.ts';
import type { MaildirOptions } from './maildir.ts';

/** The sender's half: S1 to S5. The steps stand in maildir.ts. */
export class MaildirSender {
  readonly #putting = new Map<MessageId, Promise<void>>();

  constructor(
    readonly files: MaildirFiles,
    readonly publisher: MaildirPublisher,
    readonly options: MaildirOptions,
  ) {}

  async put(entry: Entry): Promise<Acceptance> {
    const { id } = entry.message;
    // A draft has one writer: whoever brings an id that is just being put waits, and then finds it known.
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

  async #put(entry: Entry): Promise<Acceptance> {
    const accepted = (await this.#earlier(entry)) ?? (await this.#accept(entry));
    this.#doing('it is accepted, and the next command finishes it', () => {
      this.#step('S3 publish');
      this.publisher.publish(accepted.message.id, accepted.copies);
    });
    return accepted;
  }

  /** What is known needs no draft; and a draft of it could come back after the copy was taken. */
  async #earlier(entry: Entry): Promise<Acceptance | null> {
    const { ledger } = this.options;
    const { message, key } = entry;
    const keyed = key && (await ledger.underKey(message.from as AgentName, key));
    if (keyed) return sameOrConflict(keyed, entry);
    if (entry.fresh) return null;
    const trace = await ledger.trace(message.id);
    return trace && { message: trace.message, copies: trace.copies, first: false };
  }

  /** S1 and S2. */
  async #accept(entry: Entry): Promise<Acceptance> {
    const { message, copies } = entry;
    const drafts = copies.map((copy) => this.files.path(copy.mailbox, 'tmp', message.id));
    const mark = this.publisher.mark(message.id);
    let accepted: Acceptance;
    try {
      this.#step('S1 draft');
      this.#doing('nothing was stored', () => this.#draft(copies, drafts, mark, JSON.stringify(message)));
      this.#step('S2 accept');
      accepted = await this.options.ledger.accept(entry);
    } catch (error) {
      this.#discard([...drafts, mark]);
      throw error;
    }
    this.#step('S2 accepted');
    if (accepted.message.id !== message.id) this.#discard([...drafts, mark]);
    return accepted;
  }

  #draft(copies: Copy[], drafts: string[], mark: string, text: string): void {
    const [first, ...others] = drafts;
    if (first === undefined) return;
    for (const copy of copies) this.files.make(copy.mailbox);
    this.files.write(first, text);
    this.#step('S1 written');
    for (const other of others) {
      this.files.link(first, other);
      this.#step('S1 linked one');
    }
    this.publisher.linkMark(first, mark);
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

  #step(name: string): void {
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
