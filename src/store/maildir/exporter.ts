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
/** The time after which a dead worker is replaced. */
const REPLACE_MS = 1000;
/** The most copies that may wait for their files; beyond that, senders wait too. These copies are in the journal, not in memory. */
export const MOST_UNEXPORTED = 200_000;
/** While another process exports the mail of this home, how often we try to take over. */
const LOCK_MS = 1000;

interface ExportEvents {
  exported(copies: CopyNumber[]): Promise<void>;
  /** Other programs added or took messages in a watched mailbox. */
  noticed(mailbox: AgentName, changes: Changes): Promise<void>;
  /** Every copy has its file, except those that cannot be exported now. */
  idle(): void;
  trouble(error: unknown): void;
}

/** One worker thread for all homes of this process. It is never ended: if it held a lock file then, the file would stay locked. */
let worker: Worker | null = null;
/** The last worker died. Requests wait for its replacement. */
let isPausing = false;
/** Settles when the worker was loaded or failed to load. */
let loaded: Promise<void> = Promise.resolve();
const exporters = new Map<number, Exporter>();
let homes = 0;

function post(message: Addressed<ExportRequest>): void {
  if (isPausing) return;
  worker ??= start();
  // eslint-disable-next-line unicorn/require-post-message-target-origin -- A worker is no window: it has no origin.
  worker.postMessage(message);
}

/** Starts the worker. Throws if it cannot be loaded: a server without a worker must not report that it is ready. */
export async function startExportWorker(): Promise<void> {
  worker ??= start();
  return loaded;
}

function start(): Worker {
  const started = new Worker(ENTRY);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  loaded = promise;
  // Usually nobody awaits it: then a failure must not count as an unhandled rejection.
  loaded.catch(() => {});
  let hasReported = false;
  started.addEventListener('message', ({ data }: MessageEvent<Addressed<Report>>) => {
    hasReported = true;
    resolve();
    exporters.get(data.home)?.receive(data);
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
      for (const exporter of exporters.values()) exporter.resume();
    }, REPLACE_MS).unref();
  });
  // The worker does not keep the process running.
  started.unref();
  return started;
}

/**
 * The main thread's half of one home's exporter. The worker thread writes the files that other programs read, and lists folders to detect
 * messages that they add or take. Of all processes that serve this home only the one with the export lock exports.
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
  /** Counts calls of `wake`. An `idle` report with an older turn is out of date. */
  #turn = 0;
  #isBusy = false;
  #isUrgent = false;
  /** An estimate: the worker reports later what it has done. */
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

  /** True if this process exports the mail of this home. */
  get isOurs(): boolean {
    return this.#lock !== null;
  }

  /** Waits while too many copies wait for their files. */
  async room(): Promise<void> {
    while (this.#unexported >= this.most) await new Promise<void>((resolve) => this.#senders.push(resolve));
  }

  /** Call after this many copies were accepted without files. */
  added(copies: number): void {
    this.#unexported += copies;
    this.wake();
  }

  /** Exports copies without a file, if there are any. */
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

  /** Call before we move these into new/ ourselves, so that they are not reported as arrivals. */
  expect(mailbox: AgentName, ids: MessageId[]): void {
    if (this.#watched.has(mailbox)) this.#request({ do: 'expect', mailbox, ids });
  }

  /** Waits until every accepted copy has its file, except those that cannot be exported now. */
  async finish(): Promise<void> {
    while ((await this.journal.unexportedCount(1)) > 0) {
      if (!this.#lock) await new Promise((resolve) => setTimeout(resolve, 20));
      else if (!(await this.#exportNow())) return;
    }
  }

  /** Exports what is left, unless another process exports the mail of this home. */
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

  receive(report: Report): void {
    this.#handle(report).catch((error: unknown) => this.#on.trouble(error));
  }

  /** Call when the worker died: its open requests fail. If it never reported anything, `finish` does not wait for files either. */
  failed(error: Refusal, hadReported: boolean): void {
    this.#on.trouble(error);
    for (const { reject } of this.#asked.values()) reject(error);
    this.#asked.clear();
    if (!hadReported) for (const done of this.#finishing.splice(0)) done();
  }

  /** Tells a new worker what the dead one knew, and sends the requests that are still open. */
  resume(): void {
    if (this.#isClosed) this.#onClosed();
    this.#request({ do: 'open', root: this.root });
    for (const [mailbox, since] of this.#watched) this.#request({ do: 'watch', mailbox, since });
    for (const { request } of this.#asked.values()) this.#request(request);
    if (this.#lock) this.#export();
  }

  async #handle(report: Report): Promise<void> {
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
    if (this.#unexported < this.most) for (const wakeSender of this.#senders.splice(0)) wakeSender();
  }

  /** Exports once more. Returns false if the number of copies without a file did not change. */
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
    // A closed home does not start a new worker.
    if (!this.#isClosed) post({ ...request, home: this.#home });
  }
}
