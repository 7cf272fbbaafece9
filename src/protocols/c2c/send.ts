import { FIRST } from '../../core/ports/journal.ts';
import type { CopyNumber, Unexported, Acceptance, Entry } from '../../core/ports/journal.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { explained } from '../../core/disk.ts';
import { messageFrom } from '../../store/journal/rows.ts';
import { entryText } from './entry.ts';
import type { InboxStore } from './inbox-store.ts';
import type { C2cMailboxOptions } from './mailbox.ts';
import { RoomFiles } from './rooms.ts';
import { isRoom } from './shapes.ts';

type Numbered = CopyNumber & { id: MessageId };

/** How many copies of dead senders are filed in one transaction. */
const BATCH = 256;

/** The sender's half: S1 to S4 of mailbox.ts. */
export class Sender {
  readonly #rooms: RoomFiles;

  constructor(
    readonly inboxes: InboxStore,
    readonly options: C2cMailboxOptions,
  ) {
    this.#rooms = new RoomFiles(options.root);
  }

  async put(entry: Entry): Promise<Acceptance> {
    const [only] = entry.copies;
    if (only && entry.copies.length === 1) this.inboxes.refuseOdd(only.mailbox);
    this.inboxes.onStep('S1 accept');
    const [accepted] = await this.options.journal.acceptTogether([entry]);
    if (accepted instanceof Refusal) throw accepted;
    if (!accepted) throw new Error('the ledger did not answer');
    this.inboxes.onStep('S1 accepted');
    const { message, copies, first, seq } = accepted;
    if (!first || seq === undefined) await this.fileLeftovers();
    else
      await this.#file(
        entry,
        message,
        copies.map(({ mailbox }) => ({ seq, mailbox, id: message.id })),
      );
    return accepted;
  }

  async #file({ key }: Entry, message: Message, copies: Numbered[]): Promise<void> {
    let isStored = false;
    try {
      isStored = this.#noteInRoom(message);
      const filed = copies.filter(({ mailbox }) => {
        const isFiled = this.#appendIfPlain(mailbox, message);
        isStored ||= isFiled;
        return isFiled;
      });
      await this.#filed(filed);
      // The ledger keeps the other copies until their inbox is a plain file again.
      if (filed.length < copies.length) await this.options.journal.flush(true);
    } catch (error) {
      // A sender with a key can repeat the send. Without a key, a message that is in no inbox must be withdrawn.
      const isUndone = !isStored && key === undefined && (await this.#undone(message.id));
      const outcome = isUndone ? 'nothing was stored' : 'it is accepted, and the next command finishes it';
      throw explained(error, this.options.root, outcome);
    }
  }

  async #undone(id: MessageId): Promise<boolean> {
    try {
      await this.options.journal.withdraw(id, { because: 'it could not be stored' });
      return true;
    } catch {
      return false;
    }
  }

  /** Finishes the sends of dead processes: afterwards all accepted copies are in their inboxes. */
  async fileLeftovers(): Promise<void> {
    const { journal } = this.options;
    if ((await journal.unexportedCount(1)) === 0) return;
    // An older Parley recorded in two steps that a copy is in its inbox. After its first step, the copy was there.
    await journal.exported(await journal.unexported(FIRST, Number.MAX_SAFE_INTEGER, true));
    let batch = await journal.unexported(FIRST, BATCH);
    for (let last = batch.at(-1); last; last = batch.at(-1)) {
      await this.#filed(this.#appendAll(batch));
      batch = await journal.unexported(last, BATCH);
    }
  }

  /** Appends copies to their inboxes, with one write per inbox. An inbox that cannot be written must not stop the others. */
  #appendAll(copies: Unexported[]): Numbered[] {
    const done: Numbered[] = [];
    for (const [mailbox, of] of Map.groupBy(copies, (copy) => copy.mailbox)) {
      try {
        const messages = of.map(({ text }) => messageFrom(text));
        for (const message of messages) this.#noteInRoom(message);
        this.#append(mailbox, messages);
        done.push(...of);
      } catch {
        // The copies stay unexported, and the next heal tries again.
      }
    }
    return done;
  }

  /** False if this inbox refuses the message (it is not a plain file): the other copies must still be stored. */
  #appendIfPlain(mailbox: AgentName, message: Message): boolean {
    try {
      this.#append(mailbox, [message]);
      return true;
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
  }

  /** S2. Appends messages to one inbox. */
  #append(mailbox: AgentName, messages: Message[]): void {
    this.inboxes.onStep('S2 append');
    const added = messages.map((message) => ({ id: message.id, text: entryText(message, mailbox) }));
    this.inboxes.append(mailbox, added);
    this.inboxes.onStep('S2 appended one');
  }

  /** S3 and S4. Records that the copies are in their inboxes, and flushes the folder. */
  async #filed(copies: Numbered[]): Promise<void> {
    if (copies.length === 0) return;
    const { journal } = this.options;
    const mine = await journal.placed(copies);
    this.inboxes.onStep('S3 placed');
    this.inboxes.flush();
    this.inboxes.onStep('S4 flushed');
    for (const [at, { mailbox, id }] of copies.entries()) {
      // Another process filed it, too, or it was settled before we filed it. A settled copy must not stay in the inbox.
      if (!mine[at] && (await journal.copy(mailbox, id))?.state === 'settled') this.inboxes.remove(mailbox, [id]);
    }
  }

  /** Adds a message to its room's history, once, before any member has it. False if it is not for a room. spec: c2c#rooms */
  #noteInRoom({ id, to, from, body, ts }: Message): boolean {
    const room = to.slice(1);
    if (!to.startsWith('#') || !isRoom(room)) return false;
    this.#rooms.note(room, { ts: Date.parse(ts) / 1000, from_alias: from, content: body, message_id: id });
    return true;
  }
}
