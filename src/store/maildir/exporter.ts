import type { AgentName, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { explained } from '../../core/disk.ts';
import type { HeldLock } from '../../platform/lock-file.ts';
import type { CopyNumber, MailboxJournal } from '../../core/ports/journal.ts';
import { homeExportLock } from './export-files.ts';
import { errorOf } from './export-messages.ts';
import type { Addressed, Changes, Report, ExportRequest } from './export-messages.ts';

/** In a compiled program the worker is beside the program's own entry; see scripts/build.mjs. */
const ENTRY = import.meta.url.includes('$bunfs')
  ? './store/maildir/export-worker.ts'
  : new URL('./export-worker.ts', import.meta.url).href;
/** A worker that dies is replaced after this. */
const REPLACE_MS = 1000;
/** At most this many copies wait for their files; then senders wait too. They are in the journal, not in memory. */
export const MOST_UNEXPORTED = 200_000;
/** If another process exports the mail of this home, we ask so often whether it still does. */
const LOCK_MS = 1000;

interface ExportEvents {
  exported(copies: CopyNumber[]): Promise<void>;
  /** Other programs left or took something in a watched mailbox. */
  noticed(mailbox: AgentName, changes: Changes): Promise<void>;
  /** Everything has its file, or cannot have one now. */
  idle(): void;
  trouble(error: unknown): void;
}

/** One worker thread for all homes of this process. Once started it stays: ended while it holds a lock file, it would leave that locked. */
let worker: Worker | null = null;
/** The last one died: what is asked now is said to the next one. */
let isPausing = false;
/** The worker was loaded, or could not be. */
let loaded: Promise<void> = Promise.resolve();
const exporters = new Map<number, Exporter>();
let homes = 0;

function post(message: Addressed<ExportRequest>): void {
  if (isPausing) return;
  worker ??= start();
  // eslint-disable-next-line unicorn/require-post-message-target-origin -- A worker is no window: it has no origin.
  worker.postMessage(message);
}

/** Throws if the worker cannot be loaded: a program without one must not say that it serves. */
export async function startExportWorker(): Promise<void> {
  worker ??= start();
  return loaded;
}

function start(): Worker {
  const started = new Worker(ENTRY);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  loaded = promise;
  // Mostly nobody waits for it.
  loaded.catch(() => {});
  let hasReported = false;
  started.addEventListener('message', ({ data }: MessageEvent<Addressed<Report>>) => {
    hasReported = true;
    resolve();
    exporters.get(data.home)?.hear(data);
  });
  started.addEventListener('error', (event) => {
    if (worker !== started) return;
    worker = null;
    started.terminate();
    isPausing = true;
    const error = new Refusal('storage_failed', `the export worker failed: ${event.message}`);
    reject(error);
    for (const exporter of exporters.values()) exporter.failed(error, hasReported);
    setTimeout(() => {
      isPausing = false;
      for (const exporter of exporters.values()) exporter.beginAgain();
    }, REPLACE_MS).unref();
  });
  // A process that has nothing else to do may end.
  started.unref();
  return started;
}

/**
 * One home's exporter, as the main thread sees it. The work is done in a worker thread: it writes the files that other programs read, and
 * lists folders to notice what they leave or take. Of all processes that serve this home only one exports: the one with the lock.
 */
export class Exporter {
  readonly #home: number;
  #on!: ExportEvents;
  #timer: ReturnType<typeof setInterval> | undefined;
  readonly #asked = new Map<
    number,
    { request: ExportRequest; resolve: (answer: never) => void; reject: (error: Error) => void }
  >();

  readonly #watched = new Map<AgentName, number>();
  #ticket = 0;
  #lock: HeldLock | null = null;
  /** Counts calls of `wake`: an `idle` for an older one is out of date. */
  #turn = 0;
  #isBusy = false;
  #isUrgent = false;
  /** As far as we know. */
  #unexported = 0;
  #senders: (() => void)[] = [];
  #finishing: (() => void)[] = [];
  #onClosed: () => void = () => {};
  #isClosed = false;

  constructor(
    readonly root: string,
    readonly journal: MailboxJournal,
    readonly most: number,
  ) {
    homes += 1;
    this.#home = homes;
  }

  start(on: ExportEvents): void {
    this.#on = on;
    exporters.set(this.#home, this);
    this.#request({ do: 'open', root: this.root });
    this.#takeLock();
    this.#timer = setInterval(() => {
      this.#tryLock().catch((error: unknown) => on.trouble(error));
    }, LOCK_MS);
    this.#timer.unref();
  }

  /** We export the mail of this home, and no other process does. */
  get isOurs(): boolean {
    return this.#lock !== null;
  }

  /** Waits until one more may be accepted. */
  async room(): Promise<void> {
    while (this.#unexported >= this.most) await new Promise<void>((resolve) => this.#senders.push(resolve));
  }

  /** This many copies were accepted. */
  added(copies: number): void {
    this.#unexported += copies;
    this.wake();
  }

  /** There may be copies without a file. */
  wake(isUrgent = false): void {
    this.#turn += 1;
    this.#isUrgent ||= isUrgent;
    if (this.#lock && (!this.#isBusy || isUrgent)) this.#export();
  }

  /** Compares a mailbox's folders with the journal. */
  async look(mailbox: AgentName): Promise<Changes> {
    return this.#ask<Changes>((ticket) => ({ do: 'look', ticket, mailbox }));
  }

  async list(folder: string): Promise<MessageId[]> {
    return this.#ask<MessageId[]>((ticket) => ({ do: 'list', ticket, folder }));
  }

  watch(mailbox: AgentName, since: number): void {
    this.#watched.set(mailbox, since);
    this.#request({ do: 'watch', mailbox, since });
  }

  unwatch(mailbox: AgentName): void {
    this.#watched.delete(mailbox);
    this.#request({ do: 'unwatch', mailbox });
  }

  /** We bring these into new/ ourselves: nobody need be told. */
  expect(mailbox: AgentName, ids: MessageId[]): void {
    if (this.#watched.has(mailbox)) this.#request({ do: 'expect', mailbox, ids });
  }

  /** Everything accepted has its file, or cannot have one now. */
  async finish(): Promise<void> {
    while ((await this.journal.unexportedCount(1)) > 0) {
      if (!this.#lock) await new Promise((resolve) => setTimeout(resolve, 20));
      else if (!(await this.#exportNow())) return;
    }
  }

  /** Where another process exports, the files are left to it. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#lock) await this.finish();
    await new Promise<void>((resolve) => {
      this.#onClosed = resolve;
      this.#request({ do: 'close' });
      this.#isClosed = true;
    });
    exporters.delete(this.#home);
    this.#lock?.release();
  }

  hear(report: Report): void {
    this.#hear(report).catch((error: unknown) => this.#on.trouble(error));
  }

  /** The worker died: nobody waits for its answers. If it never reported anything, nobody waits for files either. */
  failed(error: Refusal, hadReported: boolean): void {
    this.#on.trouble(error);
    for (const { reject } of this.#asked.values()) reject(error);
    this.#asked.clear();
    if (!hadReported) for (const done of this.#finishing.splice(0)) done();
  }

  /** After the worker died: everything that it knew is said once more, and what was asked since. */
  beginAgain(): void {
    if (this.#isClosed) this.#onClosed();
    this.#request({ do: 'open', root: this.root });
    for (const [mailbox, since] of this.#watched) this.#request({ do: 'watch', mailbox, since });
    for (const { request } of this.#asked.values()) this.#request(request);
    if (this.#lock) this.#export();
  }

  async #hear(report: Report): Promise<void> {
    switch (report.say) {
      case 'exported':
        this.#count(this.#unexported - report.handled);
        await this.#on.exported(report.copies);
        break;
      case 'idle':
        this.#isBusy = false;
        if (report.turn < this.#turn) this.#export();
        else this.#idle();
        break;
      case 'noticed':
        await this.#on.noticed(report.mailbox, report.changes);
        break;
      case 'answer':
        this.#asked.get(report.ticket)?.resolve(report.answer as never);
        this.#asked.delete(report.ticket);
        break;
      case 'failed':
        this.#asked.get(report.ticket)?.reject(explained(errorOf(report.trouble), this.root) as Error);
        this.#asked.delete(report.ticket);
        break;
      case 'trouble':
        this.#on.trouble(explained(errorOf(report.trouble), this.root));
        break;
      case 'closed':
        this.#onClosed();
        break;
      case 'loaded':
    }
  }

  #idle(): void {
    this.#isUrgent = false;
    this.#count(0);
    this.#on.idle();
    for (const done of this.#finishing.splice(0)) done();
  }

  #count(unexported: number): void {
    this.#unexported = Math.max(0, unexported);
    if (this.#unexported < this.most) for (const goOn of this.#senders.splice(0)) goOn();
  }

  /** False if nothing could be done. */
  async #exportNow(): Promise<boolean> {
    const before = await this.journal.unexportedCount(this.most);
    await new Promise<void>((resolve) => {
      this.#finishing.push(resolve);
      this.wake(true);
    });
    return (await this.journal.unexportedCount(this.most)) !== before;
  }

  #export(): void {
    this.#isBusy = true;
    this.#request({ do: 'export', turn: this.#turn, isUrgent: this.#isUrgent });
  }

  async #tryLock(): Promise<void> {
    if (this.#lock) return;
    this.#takeLock();
    this.#count(await this.journal.unexportedCount(this.most));
  }

  #takeLock(): void {
    this.#lock = homeExportLock(this.root);
    if (this.#lock) this.wake();
  }

  async #ask<T>(request: (ticket: number) => ExportRequest): Promise<T> {
    this.#ticket += 1;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const asked = request(this.#ticket);
    this.#asked.set(this.#ticket, { request: asked, resolve, reject });
    this.#request(asked);
    return promise;
  }

  #request(request: ExportRequest): void {
    // A worker is not started again for the last words of a home that is closed.
    if (!this.#isClosed) post({ ...request, home: this.#home });
  }
}
