import type { TrayPlace } from '../ledger/late.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { breath, enter, enterLeftovers, followLedger, notYet } from './in-tray-enter.ts';
import type { Laid, Outcome, Sender } from './in-tray-enter.ts';
import { TrayLog } from './in-tray-log.ts';

/** So many are entered in one transaction, or a few more: others want to be heard between two. */
const BITE = 128;
/** What nobody asks for is entered when nothing came for so long, sooner if it is few; not later than this; and not when so much lies there. */
const QUIET_MS = 25;
const FEW = { most: 64, quietMs: 10 };
const LATEST_MS = 2000;
const MOST = 20_000;
const MOST_BYTES = 32 * 1024 * 1024;
/** After so much the log begins anew as soon as everything is entered: before that the ledger's own log has to be flushed. */
const ANEW_BYTES = 4 * 1024 * 1024;
/** What could not be entered is tried again after this. */
const TROUBLE_MS = 1000;

/**
 * Where a busy relay lays what it accepts: in a log, which is flushed before anybody is answered. Nobody need wait for the ledger: it is
 * entered there in order when the rush is over, or somebody asks for anything (`catchUp`), or too much lies here.
 *
 * R1 append a sheet to the log      R2 flush the log once      ← stored
 * R3 accept some sheets in the ledger and note there how far they reach, as one act      R4 flush the ledger, then use the log anew
 *
 * | killed                 | log            | ledger             | answered | then                                        |
 * |------------------------|----------------|--------------------|----------|---------------------------------------------|
 * | R1, half a sheet       | ends before it | –                  | no       | a retry sends it                            |
 * | R1, R2                 | the sheet      | –                  | no       | heal enters it                              |
 * | after R2               | the sheet      | –                  | yes      | heal enters it                              |
 * | R3 before the commit   | the sheet      | –                  | yes      | heal enters it                              |
 * | R3 after the commit    | the sheet      | stored, and so far | yes      | it is not entered again                     |
 * | R4                     | the next round | stored, and so far | yes      | sheets of the round before are no news      |
 * | power cut before R4, a file of it on disk | the sheet | as before | yes | the sheet is entered first, then the file is found |
 * | power cut after R2     | the sheet      | as before, or stored and so far | yes | heal enters what the ledger does not have |
 * | any, and the ledger is lost | the sheet | another one        | yes      | **it is lost with the ledger**, if it had no file |
 */
export class InTray {
  #log: TrayLog | null = null;
  /** All counted from the beginning: what was written to the log, what of it is flushed, what is in the ledger, and what somebody wants there. */
  #written = 0;
  #answered = 0;
  #entered = 0;
  #wanted = 0;
  #laid: Laid[] = [];
  #oldestAt = 0;
  #newestAt = 0;
  #readAt = -Infinity;
  /** What a dead process left is not entered yet. */
  #isOwed = false;
  #opening: Promise<void> | null = null;
  /** A flush has failed, or the ledger is another one: nothing may be written behind what stands there. */
  #isSpoiled = false;
  #life = '';
  #entering: Promise<void> | null = null;
  #asked: { count: number; resolve: () => void; reject: (error: unknown) => void }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pause: Promise<void> = Promise.resolve();

  constructor(
    readonly root: string,
    readonly ledger: Ledger,
    readonly on: {
      /** These are in the ledger now. */
      entered: (group: Sender[], outcomes: Outcome[]) => void;
      trouble: (error: unknown) => void;
    },
  ) {}

  /** For the one process that may use it: what a dead one left is entered before anything else. */
  open(): void {
    this.#isOwed = true;
    this.opened().catch((error: unknown) => this.on.trouble(error));
  }

  /** Kept when that is done. If it could not be, it is tried again. */
  async opened(): Promise<void> {
    if (!this.#isOwed) return;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null;
    });
    await this.#opening;
  }

  async #open(): Promise<void> {
    await enterLeftovers(this.root, this.ledger, this.on.trouble);
    const { life, place } = await this.ledger.tray();
    this.#life = life;
    this.#log = new TrayLog(this.root, life, place);
    this.#isOwed = false;
  }

  get isOpen(): boolean {
    return this.#log !== null;
  }

  /** Everything that was written to the log is in the ledger. */
  get isEmpty(): boolean {
    return this.#entered === this.#written;
  }

  /** Everything that was answered is in the ledger. */
  get isCaughtUp(): boolean {
    return this.#entered === this.#answered && !this.#isOwed;
  }

  /** How long nobody has asked for anything. */
  get unreadMs(): number {
    return performance.now() - this.#readAt;
  }

  /** Somebody asks for something, of whatever is in the ledger. */
  noteReader(): void {
    this.#readAt = performance.now();
  }

  /** Nothing may be written before it was emptied. */
  get isFull(): boolean {
    if (this.#isOwed || this.#isSpoiled) return true;
    return this.#answered - this.#entered >= 2 * MOST || this.#bytes >= 2 * MOST_BYTES || (this.#log?.isGone ?? false);
  }

  /** Writes a group to the log. It counts after `flush`, when it is laid here. */
  async write(group: Sender[]): Promise<Laid> {
    const log = this.#log;
    if (!log) throw new Error('the in-tray is not open');
    const isFirst = this.isEmpty;
    // Counted before: while something is on its way the log does not begin anew.
    this.#written += group.length;
    try {
      if (isFirst) this.#life = await followLedger(log, this.ledger);
      return { group, place: log.append(group.map(({ entry }) => entry)) };
    } catch (error) {
      this.#written -= group.length;
      throw error;
    }
  }

  /** `alone`: nobody else waits (see `LogFile`). */
  async flush(alone = false): Promise<void> {
    try {
      await this.#log?.flush(alone);
    } catch (error) {
      this.#isSpoiled = true;
      throw error;
    }
  }

  /** These are flushed. `soon`: somebody waits for what the ledger says. */
  lay(laid: Laid, soon: boolean): void {
    this.#newestAt = performance.now();
    if (this.#laid.length === 0) this.#oldestAt = this.#newestAt;
    this.#laid.push(laid);
    this.#answered += laid.group.length;
    if (soon) this.#want();
    else this.#wait();
  }

  /** Everything that was answered before this call is in the ledger when it returns. */
  async catchUp(): Promise<void> {
    await this.opened();
    if (this.isCaughtUp) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#asked.push({ count: this.#answered, resolve, reject });
    this.#want();
    await promise;
  }

  /** The same, and the log begins anew. Nothing may be written meanwhile. */
  async empty(): Promise<void> {
    await this.catchUp();
    await this.#entering;
    await this.#beginAnew();
  }

  /** Nothing is entered until this promise is kept. */
  pause(until: Promise<void>): void {
    this.#pause = until;
  }

  /** Everything is entered, and nothing is left of the log. What cannot be entered stays there for who comes next. */
  async close(): Promise<void> {
    try {
      for (await this.empty(); !this.isEmpty; await this.empty()) await breath();
      this.#log?.remove();
    } finally {
      clearTimeout(this.#timer);
      this.#log?.letGo();
      this.#log = null;
      // What is left belongs to who comes next: nobody here waits for it.
      this.#laid = [];
      this.#isOwed = false;
      this.#answered = this.#written = this.#wanted = this.#entered;
    }
  }

  get #bytes(): number {
    return this.#log?.bytes ?? 0;
  }

  get #quietMs(): number {
    return this.#answered - this.#entered <= FEW.most ? FEW.quietMs : QUIET_MS;
  }

  #wait(ms = this.#quietMs): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#isPressing()) this.#want();
      else if (this.#isQuiet()) this.#enterSoon();
      else this.#wait();
    }, ms);
  }

  #isPressing(): boolean {
    if (this.#laid.length > 0 && performance.now() - this.#oldestAt >= LATEST_MS) return true;
    return this.#answered - this.#entered >= MOST || this.#bytes >= MOST_BYTES;
  }

  #isQuiet(): boolean {
    return this.#answered === this.#written && performance.now() - this.#newestAt >= this.#quietMs;
  }

  /** Somebody waits for what lies here now, or it is too much: it is entered although more comes. */
  #want(): void {
    this.#wanted = this.#answered;
    this.#enterSoon();
  }

  #enterSoon(): void {
    this.#entering ??= this.#enterAll()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#entering = null;
        // Somebody may have come at the very end.
        if (this.#entered < this.#wanted) this.#enterSoon();
        else if (this.#bytes > 0) this.#wait();
      });
  }

  async #enterAll(): Promise<void> {
    while (this.#laid.length > 0 && (this.#entered < this.#wanted || this.#isQuiet())) {
      await this.#pause;
      await this.#enterBite();
      await breath();
    }
    if (this.#isQuiet() || this.#bytes >= ANEW_BYTES) await this.#beginAnew();
  }

  async #enterBite(): Promise<void> {
    const group: Sender[] = [];
    let place: TrayPlace | undefined;
    let sheets = 0;
    while (group.length < BITE && sheets < this.#laid.length) {
      const laid = this.#laid[sheets] as Laid;
      group.push(...laid.group);
      ({ place } = laid);
      sheets += 1;
    }
    if (!place) return;
    const entries = group.map(({ entry }) => entry);
    const outcomes = await enter(this.root, this.ledger, entries, place, this.on.trouble);
    this.#laid.splice(0, sheets);
    this.#entered += group.length;
    this.#oldestAt = performance.now();
    this.on.entered(group, outcomes);
    while (this.#asked[0] && this.#asked[0].count <= this.#entered) this.#asked.shift()?.resolve();
    // A damaged ledger was set aside meanwhile: what is written now should be found by the one in its place.
    if ((await this.ledger.tray()).life !== this.#life) this.#isSpoiled = true;
  }

  /** If everything is entered: what the log says is then on disk in the ledger too. */
  async #beginAnew(): Promise<void> {
    if (!this.#log || !this.isEmpty || (this.#bytes === 0 && !this.#isSpoiled)) return;
    await this.ledger.flush();
    const { life } = await this.ledger.tray();
    // Somebody may have written meanwhile.
    if (!this.isEmpty) return;
    this.#log.beginAnew(life, this.on.trouble);
    this.#life = life;
    this.#isSpoiled = false;
  }

  /** It stays in the log. Whoever waits for what the ledger says is told, and it is tried again. */
  #failed(error: unknown): void {
    this.#wanted = 0;
    this.on.trouble(error);
    for (const { reject } of this.#asked.splice(0)) reject(error);
    for (const { group } of this.#laid) for (const one of group) one.reject(notYet(error));
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#wait(TROUBLE_MS);
  }
}
