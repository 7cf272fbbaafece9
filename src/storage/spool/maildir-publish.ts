import { mkdirSync } from 'node:fs';
import { isQuiet } from '../../protocol/attention.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { isMissing, storageTrouble } from '../disk.ts';
import type { Copy } from '../ledger/ledger.ts';
import type { MaildirPlaces } from './maildir-places.ts';
import type { MaildirOptions } from './maildir-send.ts';

/** Brings drafts to where they wait, and keeps the marks of those that are on their way. */
export class MaildirPublisher {
  constructor(
    readonly files: MaildirPlaces,
    readonly options: MaildirOptions,
  ) {}

  /** Where the marks stand. */
  get sending(): string {
    return `${this.options.root}/sending`;
  }

  mark(id: MessageId): string {
    return `${this.sending}/${id}.json`;
  }

  /** The mark is a link to the draft: while it stands, a send may be half done. */
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
