import type { Refusal } from '../../protocol/refusal.ts';
import type { Acceptance, Entry, Ledger } from '../ledger/ledger.ts';
import type { LateCopies, TrayPlace } from '../ledger/late.ts';
import { hasTray, removeTray, sheetsAfter, TrayLog } from './in-tray-log.ts';

/** One who put something, and waits for an answer. */
export interface Waiting {
  entry: Entry;
  resolve: (accepted: Acceptance) => void;
  reject: (error: unknown) => void;
}

/** What was written to the log together. */
export interface Laid {
  group: Waiting[];
  place: TrayPlace;
}

/** So many are entered in one transaction, or a few more: others want to be heard between two. */
const BITE = 128;
/** What nobody asks for is entered when nothing came for so long; not later than this; and not when so much lies there. */
const QUIET_MS = 25;
const LATEST_MS = 2000;
const MOST = 20_000;
const MOST_BYTES = 32 * 1024 * 1024;
/** After so much the log begins anew as soon as everything is entered: before that the ledger's own log has to be flushed. */
const ANEW_BYTES = 4 * 1024 * 1024;
/** How long the words of what is entered may stand in the log. */
const EMPTY_MS = 10_000;
/** What could not be entered is tried again after this. */
const TROUBLE_MS = 1000;

/**
 * Where a busy relay lays what it accepts: in a log, which is flushed before anybody is answered. Nobody need wait for the ledger: it is
 * entered there in order when the rush is over, or somebody asks for anything (`entered`), or too much lies here.
 */
export class InTray {
  #log: TrayLog | null = null;
  /** All counted from the beginning: what was written to the log, what of it is flushed, what is in the ledger, and what somebody wants there. */
  #logged = 0;
  #laidCount = 0;
  #enteredCount = 0;
  #wantedCount = 0;
  #laid: Laid[] = [];
  #oldestAt = 0;
  #newestAt = 0;
  #readAt = -Infinity;
  #entering: Promise<void> | null = null;
  #asked: { count: number; resolve: () => void; reject: (error: unknown) => void }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #emptying: ReturnType<typeof setTimeout> | undefined;
  #pause: Promise<void> = Promise.resolve();

  constructor(
    readonly root: string,
    readonly ledger: Ledger,
    readonly on: {
      /** These are in the ledger now. */
      entered: (group: Waiting[], outcomes: (Acceptance | Refusal)[]) => void;
      trouble: (error: unknown) => void;
    },
  ) {}

  /** For the one process that may use it: enters what a dead one left, and is open from then on. */
  async open(): Promise<void> {
    await enterLeftovers(this.root, this.ledger);
    const { life, place } = await this.ledger.tray();
    this.#log ??= new TrayLog(this.root, life, place);
  }

  get isOpen(): boolean {
    return this.#log !== null;
  }

  /** Everything that was written to the log is in the ledger. */
  get isEmpty(): boolean {
    return this.#enteredCount === this.#logged;
  }

  /** Everything that was answered is in the ledger. */
  get isEntered(): boolean {
    return this.#enteredCount === this.#laidCount;
  }

  /** How long nobody has asked for anything. */
  get unreadMs(): number {
    return performance.now() - this.#readAt;
  }

  /** Somebody asks for something, of whatever is in the ledger. */
  noteReader(): void {
    this.#readAt = performance.now();
  }

  get isFull(): boolean {
    return this.#laidCount - this.#enteredCount >= 2 * MOST || (this.#log?.bytes ?? 0) >= 2 * MOST_BYTES;
  }

  /** Writes a group to the log. It counts after `flush`, when it is laid here. */
  write(group: Waiting[]): Laid {
    if (!this.#log) throw new Error('the in-tray is not open');
    const place = this.#log.append(group.map(({ entry }) => entry));
    this.#logged += group.length;
    return { group, place };
  }

  async flush(alone: boolean): Promise<void> {
    await this.#log?.flush(alone);
  }

  /** These are flushed. `soon`: somebody waits for what the ledger says. */
  lay(laid: Laid, soon: boolean): void {
    const now = performance.now();
    if (this.isEntered) this.#oldestAt = now;
    this.#newestAt = now;
    this.#laid.push(laid);
    this.#laidCount += laid.group.length;
    if (soon) this.#want();
    else this.#wait();
  }

  /** Everything that was answered before this call is in the ledger when it returns. */
  async entered(): Promise<void> {
    if (this.isEntered) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#asked.push({ count: this.#laidCount, resolve, reject });
    this.#want();
    await promise;
  }

  /** The same, and the log begins anew. Nothing may be written meanwhile. */
  async emptied(): Promise<void> {
    await this.entered();
    await this.#entering;
    await this.#beginAnew();
  }

  /** Nothing is entered until this promise is kept. */
  pause(until: Promise<void>): void {
    this.#pause = until;
  }

  /** Everything is entered, and nothing is left of the log. */
  async close(): Promise<void> {
    await this.emptied();
    clearTimeout(this.#timer);
    clearTimeout(this.#emptying);
    this.#log?.remove();
    this.#log = null;
  }

  #wait(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#isPressing()) this.#want();
      else if (this.#isQuiet()) this.#enterSoon();
      else this.#wait();
    }, QUIET_MS);
  }

  #isPressing(): boolean {
    const isLate = !this.isEntered && performance.now() - this.#oldestAt >= LATEST_MS;
    return isLate || this.#laidCount - this.#enteredCount >= MOST || (this.#log?.bytes ?? 0) >= MOST_BYTES;
  }

  #isQuiet(): boolean {
    return this.#laidCount === this.#logged && performance.now() - this.#newestAt >= QUIET_MS;
  }

  /** Somebody waits for what lies here now, or it is too much: it is entered although more comes. */
  #want(): void {
    this.#wantedCount = this.#laidCount;
    this.#enterSoon();
  }

  #enterSoon(): void {
    this.#entering ??= this.#enterAll()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#entering = null;
        // Somebody may have come at the very end.
        if (this.#enteredCount < this.#wantedCount) this.#enterSoon();
        else if (this.#log && this.#log.bytes > 0) this.#wait();
      });
  }

  async #enterAll(): Promise<void> {
    while (this.#laid.length > 0 && (this.#enteredCount < this.#wantedCount || this.#isQuiet())) {
      await this.#pause;
      await this.#enterBite();
      // Others are heard meanwhile.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    if (this.#isQuiet() || (this.#log?.bytes ?? 0) >= ANEW_BYTES) await this.#beginAnew();
  }

  async #enterBite(): Promise<void> {
    let sheets = 0;
    const group: Waiting[] = [];
    for (const laid of this.#laid) {
      group.push(...laid.group);
      sheets += 1;
      if (group.length >= BITE) break;
    }
    const outcomes = await this.ledger.acceptTogether(
      group.map(({ entry }) => entry),
      this.#laid[sheets - 1]?.place,
    );
    this.#laid.splice(0, sheets);
    this.#enteredCount += group.length;
    this.#oldestAt = performance.now();
    this.on.entered(group, outcomes);
    while (this.#asked[0] && this.#asked[0].count <= this.#enteredCount) this.#asked.shift()?.resolve();
  }

  /** If everything is entered: what the log says is then on disk in the ledger too. */
  async #beginAnew(): Promise<void> {
    if (!this.#log || this.#log.bytes === 0 || !this.isEmpty) return;
    await this.ledger.flush();
    const { life } = await this.ledger.tray();
    // Somebody may have written meanwhile.
    if (!this.isEmpty) return;
    this.#log.beginAnew(life);
    clearTimeout(this.#emptying);
    this.#emptying = setTimeout(() => {
      if (this.isEmpty && this.#log?.bytes === 0) this.#log.remove();
    }, EMPTY_MS);
    this.#emptying.unref();
  }

  /** It stays in the log. Whoever waits for what the ledger says is told, and it is tried again. */
  #failed(error: unknown): void {
    this.#wantedCount = 0;
    this.on.trouble(error);
    for (const { reject } of this.#asked.splice(0)) reject(error);
    for (const { group } of this.#laid) for (const one of group) one.reject(error);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#want();
    }, TROUBLE_MS);
  }
}

/** Enters what a dead process left in its tray. Only for who holds the keeper's lock. */
export async function enterLeftovers(root: string, ledger: LateCopies): Promise<void> {
  if (!hasTray(root)) return;
  const { life, place } = await ledger.tray();
  let found = false;
  for (const sheet of sheetsAfter(root, life, place)) {
    await ledger.acceptTogether(sheet.entries, sheet.place);
    found = true;
  }
  if (found) await ledger.flush();
  removeTray(root);
}
