import { isQuiet } from '../../protocol/attention.ts';
import type { Message } from '../../protocol/message.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Evidence } from '../../protocol/receipt.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { CopyNumber, Standing } from '../ledger/late.ts';
import type { Acceptance, CopyRecord, Entry, Ledger, Mail, Settlement } from '../ledger/ledger.ts';
import { messageFrom } from '../ledger/rows.ts';
import type { Looked } from './back-room-talk.ts';
import { GroupCommit } from './group-commit.ts';
import { BackRoom } from './late-back-room.ts';
import { LateFiling, MOST_UNFILED } from './late-filing.ts';
import { LateRaised } from './late-raised.ts';
import { wholeShelf } from './late-shelf.ts';
import { LateWatchers } from './late-watchers.ts';
import { Maildir } from './maildir.ts';
import type { MaildirOptions } from './maildir-send.ts';
import { oldestFirst } from './oldest-first.ts';
import type { Claim, Lease, Show, Spool, Waiting, Watch } from './spool.ts';

export interface LateMaildirOptions extends Omit<MaildirOptions, 'backRoom'> {
  /** Told what went wrong where nobody waits for an answer: a file that could not be written, a folder that could not be listed. */
  onTrouble?: (error: unknown) => void;
  /** How many copies may wait for their files before senders wait too. */
  mostUnfiled?: number;
}

/**
 * Backchannel's Maildir for a process that lives long and is asked by many at once.
 *
 * put    P1 accept in the ledger everything that came in this turn, as one act      P2 flush the ledger's log once      ← stored
 * file   F1 write tmp/<id>.late      F2 `drafted` in the ledger      F3 rename to new/ or quiet/      F4 `filed` in the ledger
 * take   T1 claim in the ledger: a copy without a file comes from there, and never gets one; any other as in maildir-send.ts
 *
 * The log that was flushed is the proof of `stored`; the files follow, and are what other programs see.
 * They are written by one process only, the keeper of the ledger: by the back room of a living relay, or by `heal` of anybody after it died.
 *
 * | killed                 | files               | ledger              | answered | then                                        |
 * |------------------------|---------------------|---------------------|----------|---------------------------------------------|
 * | before P1 commits      | –                   | –                   | no       | a retry sends it                            |
 * | P1, P2                 | –                   | stored, unfiled     | no       | heal files it; a retry gets the same id     |
 * | after P2               | –                   | stored, unfiled     | yes      | heal files it                               |
 * | F1, half a draft       | tmp/.late           | stored, unfiled     | yes      | heal writes the draft anew                  |
 * | F2 before the commit   | tmp/.late           | stored, unfiled     | yes      | the same; or a claim takes it, drops the draft |
 * | F2 after the commit    | tmp/.late           | stored, drafted     | yes      | heal renames it; a claim finds it in tmp/   |
 * | F3                     | new/                | stored, drafted     | yes      | a rename has one winner; heal says `filed`  |
 * | F4                     | new/                | stored              | yes      | nothing to do                               |
 * | T1 of a fileless copy  | – (or tmp/.late)    | held by the dead    | –        | heal: stored, unfiled again, marked         |
 * | settled, then killed   | – (or tmp/.late)    | settled             | –        | never gets a file; a draft goes with the next restart |
 * | settled with keep, before cur/ | –           | settled             | –        | the record is in the ledger, not in cur/    |
 * | any, and the ledger is lost or damaged | what was filed | a fresh one | yes | **what had no file yet is lost** (or in the damaged one, kept beside) |
 * | power cut after P2     | any, some without text | stored, unfiled or drafted or filed | yes | `recount`: what has no whole file gets one |
 * | power cut after F2, lost in the ledger | new/ | stored, unfiled     | yes      | `recount` finds it filed                    |
 * | power cut after a settle | –                 | stored again, if nobody flushed | – | at least once, as in maildir-send.ts        |
 */
export class LateMaildir implements Spool {
  readonly #maildir: Maildir;
  readonly #room: BackRoom;
  readonly #group: GroupCommit;
  readonly #watchers: LateWatchers;
  readonly #filing: LateFiling;
  readonly #raised: LateRaised;
  readonly ledger: Ledger;
  #closing: Promise<void> | null = null;

  constructor(readonly options: LateMaildirOptions) {
    const { root, ledger } = options;
    this.ledger = ledger;
    this.#room = new BackRoom(root, {
      drafted: (copies) => ledger.drafted(copies),
      filed: (copies, handled) => this.#filed(copies, handled),
      noticed: async (mailbox, found) => void (await this.#square(mailbox, found)),
      idle: () => {
        this.#watchers.allFiled();
        this.#raised.allFiled();
        this.#filing.idle();
      },
      trouble: (error) => options.onTrouble?.(error),
    });
    this.#watchers = new LateWatchers(ledger, this.#room, (error) => options.onTrouble?.(error));
    this.#maildir = new Maildir({ ...options, ledger, backRoom: this.#room });
    this.#raised = new LateRaised(ledger, this.#maildir, this.#watchers);
    this.#group = new GroupCommit(root, ledger, (outcomes) => this.#committed(outcomes));
    ledger.tuneForServer();
    this.#filing = new LateFiling(root, ledger, this.#room, options.mostUnfiled ?? MOST_UNFILED);
  }

  async put(entry: Entry): Promise<Acceptance> {
    await this.#filing.place();
    const text = JSON.stringify(entry.message);
    const accepted = await this.#group.put({ ...entry, text });
    if (!accepted.first) return accepted;
    this.#tell(accepted, text);
    return { ...accepted, text };
  }

  #tell({ seq, copies }: Acceptance, text: string): void {
    if (seq === undefined) return;
    for (const { mailbox, attention } of copies) if (!isQuiet(attention)) this.#watchers.tell(mailbox, { seq, text });
  }

  #committed(outcomes: (Acceptance | Refusal)[]): void {
    for (const one of outcomes) {
      if (one instanceof Refusal || one.seq === undefined) continue;
      this.#filing.added(one.copies.length);
      if (this.#filing.isOurs) this.#watchers.tellOurselves(one.seq);
    }
    this.#room.file();
  }

  async peek(mailbox: AgentName): Promise<Waiting[]> {
    const standing = await this.#standing(mailbox);
    return oldestFirst(standing.map(({ text, quiet }) => ({ message: messageFrom(text), quiet })));
  }

  async ids(mailbox: AgentName, loudOnly = false): Promise<MessageId[]> {
    return (await this.#standing(mailbox)).flatMap(({ id, quiet }) => (loudOnly && quiet ? [] : [id]));
  }

  async read(mailbox: AgentName, id: MessageId): Promise<Waiting | null> {
    const standing = await this.ledger.standing(mailbox, id);
    if (standing) return { message: messageFrom(standing.text), quiet: standing.quiet };
    // Another program may have left it a moment ago.
    return (await this.ledger.copy(mailbox, id)) ? null : this.#maildir.read(mailbox, id);
  }

  /** A watched mailbox is looked after all the time. */
  async adopt(mailbox: AgentName): Promise<number> {
    if (this.#watchers.has(mailbox)) return 0;
    return (await this.#square(mailbox, await this.#room.look(mailbox))).length;
  }

  async claim(
    mailbox: AgentName,
    ids: MessageId[],
    lease: Lease,
    read?: ReadonlyMap<MessageId, Message>,
  ): Promise<Claim> {
    return this.#maildir.claim(mailbox, ids, lease, read);
  }

  async renew(claim: Pick<Claim, 'mailbox' | 'owner'>, lease: Lease): Promise<boolean> {
    return this.#maildir.renew(claim, lease);
  }

  async settle(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    settlement: Settlement,
    show?: Show,
  ): Promise<boolean> {
    try {
      return await this.#maildir.settle(claim, ids, settlement, show);
    } catch (error) {
      // It was put back.
      await this.#watchers.tellOf(claim.mailbox, ids);
      throw error;
    }
  }

  async release(
    claim: Pick<Claim, 'mailbox' | 'owner'>,
    ids: MessageId[],
    because: Evidence,
    delayMs?: number,
    begun?: boolean,
  ): Promise<MessageId[]> {
    const released = await this.#maildir.release(claim, ids, because, delayMs, begun);
    if (!delayMs) await this.#watchers.tellOf(claim.mailbox, released);
    return released;
  }

  watch(mailbox: AgentName, onArrival: (mail?: Mail) => void): Watch {
    return this.#watchers.watch(mailbox, onArrival);
  }

  async lower(mailbox: AgentName, id: MessageId): Promise<void> {
    const copy = await this.ledger.copy(mailbox, id);
    if (!copy) return;
    await this.ledger.reconsider(mailbox, id, { ...copy.attention, injection: 'tool_mailbox' });
    await this.#maildir.lower(mailbox, id);
  }

  async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    return this.#raised.raise(mailbox, id);
  }

  async withdraw(id: MessageId, by: Evidence): Promise<CopyRecord[]> {
    return this.#maildir.withdraw(id, by);
  }

  async heal(): Promise<void> {
    const abandoned = await this.ledger.abandoned();
    await this.#maildir.heal();
    for (const { mailbox, id } of abandoned) await this.#watchers.tellOf(mailbox, [id]);
  }

  async flush(): Promise<void> {
    await this.#group.settled();
    await this.#filing.finish();
  }

  async asides(): Promise<string[]> {
    return this.#maildir.asides();
  }

  async remove(mailbox: AgentName): Promise<void> {
    const waiting = await this.#standing(mailbox);
    await this.#maildir.remove(mailbox);
    for (const { id } of waiting) await this.ledger.lost(mailbox, id);
  }

  /** Accepts nothing more, and ends when everything that was accepted has its file. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#group.settled();
    await this.#filing.close();
  }

  /** Everything that waits, in order of arrival, with what other programs left. */
  async #standing(mailbox: AgentName): Promise<Standing[]> {
    await this.adopt(mailbox);
    return wholeShelf(this.ledger, mailbox);
  }

  /** Takes in what a look has found, and tells of what is new. Returns what was adopted. */
  async #square(mailbox: AgentName, { missing, strangers, arrived }: Looked): Promise<MessageId[]> {
    const adopted =
      missing.length + strangers.length > 0 ? await this.#maildir.square(mailbox, { missing, strangers }) : [];
    await this.#watchers.tellOf(mailbox, [...new Set([...arrived, ...adopted])]);
    return adopted;
  }

  async #filed(copies: CopyNumber[], handled: number): Promise<void> {
    await this.ledger.filed(copies);
    this.#filing.filed(handled);
    await this.#watchers.filed(copies);
    await this.#raised.filed(copies);
  }
}
