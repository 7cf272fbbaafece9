import { existsSync, mkdirSync } from 'node:fs';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { entryText } from '../c2c/entry.ts';
import { appendLines } from '../c2c/lines-file.ts';
import { withLock } from '../c2c/lock.ts';
import { readBytes } from '../c2c/state-file.ts';
import { explained } from '../disk.ts';
import type { CopyNumber, Unexported } from '../ledger/export-queue.ts';
import { FIRST } from '../ledger/export-queue.ts';
import type { Acceptance, Copy, Entry } from '../ledger/ledger.ts';
import { messageFrom } from '../ledger/rows.ts';
import type { BrokerBox } from './c2c-broker-box.ts';
import type { C2cSpoolOptions } from './c2c-broker.ts';

/** How many leftovers are filed between two words with the ledger. */
const BITE = 256;
/** How far back a room's history is searched for a message that may be in it already. */
const TAIL = 256 * 1024;

type Numbered = CopyNumber & { id: MessageId };

/** The sender's half: S1 to S4. The steps stand in c2c-broker.ts. */
export class BrokerSender {
  constructor(
    readonly box: BrokerBox,
    readonly options: C2cSpoolOptions,
  ) {}

  async put(entry: Entry): Promise<Acceptance> {
    const [only] = entry.copies;
    if (only && entry.copies.length === 1) this.box.refuseOddity(only.mailbox);
    this.#step('S1 accept');
    const [accepted] = await this.options.ledger.acceptTogether([entry]);
    if (accepted instanceof Refusal) throw accepted;
    if (!accepted) throw new Error('the ledger did not answer');
    this.#step('S1 accepted');
    const { message, copies, first, seq } = accepted;
    if (!first || seq === undefined) await this.fileLeftovers();
    else await this.#file(entry, seq, message, copies);
    return accepted;
  }

  async #file({ key }: Entry, seq: number, message: Message, copies: Copy[]): Promise<void> {
    let stands = false;
    try {
      stands = this.#noteInRoom(message);
      const filed = copies.filter(({ mailbox }) => {
        const isFiled = this.#appendIfPlain(mailbox, message);
        stands ||= isFiled;
        return isFiled;
      });
      await this.#filed(filed.map(({ mailbox }) => ({ seq, mailbox, id: message.id })));
      // The others stand in the ledger until somebody has put their place in order.
      if (filed.length < copies.length) await this.options.ledger.flush(true);
    } catch (error) {
      // Whoever gave a key can ask again for the same. For others it must be as if it had never been.
      const isUndone = !stands && key === undefined && (await this.#undone(message.id));
      const outcome = isUndone ? 'nothing was stored' : 'it is accepted, and the next command finishes it';
      throw explained(error, this.options.root, outcome);
    }
  }

  async #undone(id: MessageId): Promise<boolean> {
    try {
      await this.options.ledger.withdraw(id, { because: 'it could not be stored' });
      return true;
    } catch {
      return false;
    }
  }

  /** Finishes what a dead sender left: what was accepted stands in every mailbox then. */
  async fileLeftovers(): Promise<void> {
    const { ledger } = this.options;
    if ((await ledger.unexportedCount(1)) === 0) return;
    // An older Parley noted in two steps that a copy stands in its place: whoever came to the first had put it there.
    await ledger.exported(await ledger.unexported(FIRST, Number.MAX_SAFE_INTEGER, true));
    let bite = await ledger.unexported(FIRST, BITE);
    for (let last = bite.at(-1); last; last = bite.at(-1)) {
      await this.#filed(this.#appendAll(bite));
      bite = await ledger.unexported(last, BITE);
    }
  }

  /** Each inbox is written once. One that cannot be written to must not hold up the others. */
  #appendAll(copies: Unexported[]): Numbered[] {
    const done: Numbered[] = [];
    for (const [mailbox, of] of Map.groupBy(copies, (copy) => copy.mailbox)) {
      try {
        const messages = of.map(({ text }) => messageFrom(text));
        for (const message of messages) this.#noteInRoom(message);
        this.#append(mailbox, messages);
        done.push(...of);
      } catch {
        // It stays on the list, and whoever comes next tries again.
      }
    }
    return done;
  }

  /** One mailbox in whose place something odd stands must not keep a message from the others. */
  #appendIfPlain(mailbox: AgentName, message: Message): boolean {
    try {
      this.#append(mailbox, [message]);
      return true;
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
  }

  /** S2. */
  #append(mailbox: AgentName, messages: Message[]): void {
    this.#step('S2 append');
    this.box.append(
      mailbox,
      messages.map((message) => ({ id: message.id, text: entryText(message, mailbox) })),
    );
    this.#step('S2 appended one');
  }

  /** S3 and S4. */
  async #filed(copies: Numbered[]): Promise<void> {
    if (copies.length === 0) return;
    const { ledger } = this.options;
    const mine = await ledger.placed(copies);
    this.#step('S3 placed');
    this.box.flush();
    this.#step('S4 flushed');
    for (const [at, { mailbox, id }] of copies.entries()) {
      // Somebody else filed it too; or it ended before it stood here, and then it must not stand here.
      if (!mine[at] && (await ledger.copy(mailbox, id))?.state === 'settled') this.box.remove(mailbox, [id]);
    }
  }

  /** What is said in a room stands in its history, once, before anybody has it. spec: c2c#rooms */
  #noteInRoom({ id, to, from, body, ts }: Message): boolean {
    const room = /^#([A-Za-z0-9_-]{1,64})$/.exec(to)?.[1];
    if (room === undefined) return false;
    const folder = `${this.options.root}/rooms/${room}`;
    if (!existsSync(folder)) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = `${folder}/history.jsonl`;
    withLock(`${folder}/history.lock`, () => {
      const past = readBytes(path);
      if (past?.subarray(-TAIL).includes(`"message_id":"${id}"`)) return;
      appendLines(path, [{ ts: Date.parse(ts) / 1000, from_alias: from, content: body, message_id: id }]);
    });
    return true;
  }

  #step(name: string): void {
    this.options.onStep?.(name);
  }
}
