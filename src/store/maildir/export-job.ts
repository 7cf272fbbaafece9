import type { AgentName } from '../../core/names.ts';
import { FIRST } from '../../core/ports/journal.ts';
import type { CopyNumber } from '../../core/ports/journal.ts';
import { openSqliteJournal } from '../journal/sqlite.ts';
import type { SqliteJournal } from '../journal/sqlite.ts';
import { ExportFiles } from './export-files.ts';
import { troubleOf } from './export-messages.ts';
import type { Report, ExportRequest } from './export-messages.ts';
import { ForeignChanges } from './foreign-changes.ts';
import { MaildirFiles, idsIn } from './files.ts';

/** Files written before other requests get their turn. */
const BATCH = 64;
/** Batches between two checkpoints. The checkpoint runs in this thread, so no sender waits for it. */
const CHECKPOINT_BATCHES = 32;
/** How long the export waits for more mail, so that several files are written together. */
const LINGER_MS = 10;
/** While mail comes in, the export waits so that senders have the disk and the processor, but at most this long and for this many copies. */
const GIVE_WAY_MS = 1000;
const GIVE_WAY_COPIES = 5000;
/** Small: this thread reads each row once. */
const CACHE_KB = 2000;
/** How often watched mailboxes are checked: half of the time within which mail of other programs must be noticed. */
const LOOK_MS = 500;
/** How long exports stop after a failure, unless an urgent one is requested. */
const PAUSE_MS = 1000;

/**
 * The worker's half of one home's exporter. It exports mail to files, lists folders, and copies the log into the journal. If the journal
 * cannot be opened, the request fails with that error, and the next request tries again.
 */
export class ExportJob {
  readonly #files: MaildirFiles;
  readonly #export: ExportFiles;
  readonly #changes: ForeignChanges;
  readonly #timer: ReturnType<typeof setInterval>;
  #opened: SqliteJournal | null = null;
  #mayExport = false;
  #turn = 0;
  #isUrgent = false;
  #exporting: Promise<void> | null = null;
  #pausedUntil = 0;
  #wake: () => void = () => {};
  #isClosed = false;

  constructor(
    readonly root: string,
    readonly report: (what: Report) => void,
  ) {
    this.#files = new MaildirFiles(root);
    this.#export = new ExportFiles(this.#files);
    this.#changes = new ForeignChanges(this.#files, () => this.#ledger);
    this.#timer = setInterval(() => {
      this.#lookAround().catch((error: unknown) => this.#trouble(error));
    }, LOOK_MS);
  }

  get #ledger(): SqliteJournal {
    if (this.#opened) return this.#opened;
    const journal = openSqliteJournal({ path: `${this.root}/ledger.db`, durability: 'normal' });
    journal.tuneForServer(CACHE_KB);
    this.#opened = journal;
    return journal;
  }

  take(request: Exclude<ExportRequest, { do: 'open' }>): void {
    this.#take(request).catch((error: unknown) => {
      if ('ticket' in request) this.report({ say: 'failed', ticket: request.ticket, trouble: troubleOf(error) });
      else this.#trouble(error);
    });
  }

  async #take(request: Exclude<ExportRequest, { do: 'open' }>): Promise<void> {
    switch (request.do) {
      case 'export':
        this.#mayExport = true;
        this.#turn = request.turn;
        this.#isUrgent ||= request.isUrgent;
        if (this.#isUrgent) this.#wake();
        this.#start();
        break;
      case 'look': {
        const answer = await this.#changes.look(request.mailbox);
        this.report({ say: 'answer', ticket: request.ticket, answer });
        break;
      }
      case 'list':
        this.report({ say: 'answer', ticket: request.ticket, answer: idsIn(request.folder) });
        break;
      case 'watch':
        await this.#changes.watch(request.mailbox, request.since);
        await this.#lookInto(request.mailbox);
        break;
      case 'unwatch':
        this.#changes.unwatch(request.mailbox);
        break;
      case 'expect':
        this.#changes.expect(request.mailbox, request.ids);
        break;
      case 'close':
        await this.#close();
    }
  }

  /** Starts an export, unless one is under way: that one checks for new copies before it ends. */
  #start(): void {
    if (this.#exporting || !this.#mayExport || this.#isClosed) return;
    if (performance.now() < this.#pausedUntil && !this.#isUrgent) {
      this.report({ say: 'idle', turn: this.#turn });
      return;
    }
    this.#exporting = this.#run();
  }

  async #run(): Promise<void> {
    let turn = 0;
    try {
      turn = await this.#exportAll();
    } catch (error) {
      turn = this.#turn;
      this.#pausedUntil = performance.now() + PAUSE_MS;
      this.#trouble(error);
    }
    this.#exporting = null;
    this.#isUrgent = false;
    this.report({ say: 'idle', turn });
  }

  /**
   * Runs passes until one exports nothing: copies may be put back during a pass, and some cannot be written. Returns the turn that the
   * last pass served.
   */
  async #exportAll(): Promise<number> {
    const onTrouble = (error: unknown): void => this.#trouble(error);
    await this.#export.finishDrafts(this.#ledger, onTrouble);
    for (let turn = this.#turn; ; turn = this.#turn) {
      const handled = await this.#exportPass(onTrouble);
      if (handled > 0 && !this.#isClosed) continue;
      this.#ledger.checkpoint();
      return turn;
    }
  }

  /** Exports every waiting copy, oldest first. Returns how many it handled. */
  async #exportPass(onTrouble: (error: unknown) => void): Promise<number> {
    let [handled, batches, isFull] = [0, 0, false];
    for (let after: CopyNumber | undefined = FIRST; after;) {
      if (!isFull) await this.#giveWay();
      // Let other requests run.
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (this.#isClosed) break;
      const batch = await this.#ledger.unexported(after, BATCH);
      isFull = batch.length === BATCH;
      after = batch.at(-1);
      const done = await this.#export.exportBatch(this.#ledger, batch, onTrouble);
      for (const { mailbox, id } of done.published) this.#changes.expect(mailbox, [id]);
      const copies = done.published.map(({ seq, mailbox }) => ({ seq, mailbox }));
      if (done.handled > 0) this.report({ say: 'exported', copies, handled: done.handled });
      handled += done.handled;
      batches += 1;
      if (batches % CHECKPOINT_BATCHES === 0) this.#ledger.checkpoint();
    }
    return handled;
  }

  /** Waits until no mail came for `LINGER_MS`, but at most `GIVE_WAY_MS` and only while few files are missing. */
  async #giveWay(): Promise<void> {
    const end = performance.now() + GIVE_WAY_MS;
    for (
      let newest = await this.#ledger.newest(), before = -1;
      newest !== before && !this.#isUrgent && !this.#isClosed;
    ) {
      if (performance.now() > end || (await this.#ledger.unexportedCount(GIVE_WAY_COPIES)) >= GIVE_WAY_COPIES) return;
      before = newest;
      await this.#linger();
      newest = await this.#ledger.newest();
    }
  }

  async #linger(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LINGER_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #lookAround(): Promise<void> {
    for (const mailbox of this.#changes.due()) {
      await this.#lookInto(mailbox).catch((error: unknown) => this.#trouble(error));
    }
    if (!this.#mayExport || performance.now() < this.#pausedUntil) return;
    if ((await this.#ledger.unexportedCount(1)) > 0) this.#start();
  }

  async #lookInto(mailbox: AgentName): Promise<void> {
    const changes = await this.#changes.look(mailbox);
    if (changes.arrived.length + changes.missing.length + changes.strangers.length === 0) return;
    this.report({ say: 'noticed', mailbox, changes });
  }

  #trouble(error: unknown): void {
    if (!this.#isClosed) this.report({ say: 'trouble', trouble: troubleOf(error) });
  }

  async #close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#wake();
    try {
      await this.#exporting;
      await this.#opened?.close();
    } finally {
      // Report it even after an error: the main thread waits for it.
      this.report({ say: 'closed' });
    }
  }
}
