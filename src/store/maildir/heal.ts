import { statSync } from 'node:fs';
import type { Attention } from '../../core/attention/attention.ts';
import { isQuiet } from '../../core/attention/attention.ts';
import type { Message } from '../../core/message.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import { isDiskFull } from '../../core/disk.ts';
import { newHolder } from '../../platform/holder.ts';
import { FEW } from '../journal/reserve.ts';
import type { Entry } from '../../core/ports/journal.ts';
import { ExportFiles, exportLeftovers } from './export-files.ts';
import { compareFolders, withLineage, idsIn } from './files.ts';
import type { FolderDifferences, MaildirFiles } from './files.ts';
import type { MaildirPublisher, MaildirOptions } from './send.ts';

/** The age at which a draft without a row is removed: its sender is long dead. */
const DRAFT_MS = 60 * 60 * 1000;
/** How often one process tidies a mailbox. At every claim it would read the rows of all copies that others hold. */
const TIDY_MS = 60 * 1000;
/** The lease on a copy that we put back: far longer than that takes. */
const PUT_BACK_MS = 30 * 1000;

/** Finishes sends, takes and exports of dead processes, and makes rows for files that have none. */
export class MaildirHealer {
  readonly #tidied = new Map<AgentName, number>();
  readonly #export: ExportFiles;

  constructor(
    readonly files: MaildirFiles,
    readonly publisher: MaildirPublisher,
    readonly options: MaildirOptions,
  ) {
    this.#export = new ExportFiles(files, options.onStep);
  }

  async heal(): Promise<void> {
    await this.#finishSends();
    const { held, fresh, unexported } = await this.options.journal.troubles();
    if (held) await this.#freeAbandoned();
    if (fresh) await this.#adoptEverything();
    if (held || fresh || unexported) await this.exportLeftovers();
  }

  async #freeAbandoned(): Promise<void> {
    for (const copy of await this.options.journal.abandoned()) {
      await this.options.journal.restore(copy, () => {
        this.putBack(copy.mailbox, copy.id, copy.attention);
        this.#step('H put back');
      });
    }
  }

  /** Exports copies that a relay accepted without files. In a process with an exporter, wakes the exporter. */
  async exportLeftovers(): Promise<void> {
    if (this.options.exporter) this.options.exporter.wake();
    else await exportLeftovers(this.options.root, this.#export, this.options.journal);
  }

  /** T4: deletes the file of a settled copy, or moves it to cur/, also if another process put it back meanwhile. */
  sweep(mailbox: AgentName, id: MessageId, keep: boolean): boolean {
    const kept = this.files.path(mailbox, 'cur', id);
    for (const folder of ['held', 'new', 'quiet'] as const) {
      const path = this.files.path(mailbox, folder, id);
      if (keep ? this.files.move(path, kept) : this.files.delete(path)) return true;
    }
    // Only now: before the settle the copy could be released, and an exporter could publish this draft.
    this.files.delete(this.files.draft(mailbox, id));
    return false;
  }

  /** Writes a settled copy that never had a file to cur/. */
  async keepFileless(mailbox: AgentName, id: MessageId): Promise<void> {
    const message =
      (await this.options.journal.copy(mailbox, id))?.fileless && (await this.options.journal.message(id));
    if (!message) return;
    this.files.make(mailbox);
    const keeping = this.files.keeping(mailbox, id);
    this.files.write(keeping, JSON.stringify(message));
    this.#step('T4 kept');
    this.files.move(keeping, this.files.path(mailbox, 'cur', id));
  }

  /** Moves a file from held/ back to the folder where it waited. A copy that was claimed but never moved is there already. */
  putBack(mailbox: AgentName, id: MessageId, attention: Attention | undefined): void {
    const place = attention && isQuiet(attention) ? 'quiet' : 'new';
    this.files.move(this.files.path(mailbox, 'held', id), this.files.path(mailbox, place, id));
  }

  /** Calls `tidy` at most once per `TIDY_MS`: no reader waits for its result. */
  async tidyNowAndThen(mailbox: AgentName): Promise<void> {
    const now = this.options.now();
    if (Math.abs(now - (this.#tidied.get(mailbox) ?? -Infinity)) < TIDY_MS) return;
    this.#tidied.set(mailbox, now);
    await this.tidy(mailbox);
  }

  /** Makes the next claim tidy this mailbox: held/ may have files that nobody holds. */
  tidySoon(mailbox: AgentName): void {
    this.#tidied.delete(mailbox);
  }

  /** Reconciles the held files and the drafts of a mailbox with the journal. */
  async tidy(mailbox: AgentName): Promise<void> {
    for (const id of await this.#list(this.files.folder(mailbox, 'held'))) {
      const copy = await this.options.journal.copy(mailbox, id);
      if (copy?.state === 'settled') this.sweep(mailbox, id, copy.keep);
      else if (copy?.state === 'stored') await this.#putBackUnheld(mailbox, id);
      else if (copy?.state !== 'held') this.putBack(mailbox, id, copy?.attention);
    }
    await this.#tidyDrafts(mailbox);
  }

  /**
   * Deletes the drafts of copies that ended, and finishes kept copies on their way to cur/. Leaves a draft without a row: if the journal
   * was lost, it may be the only trace of a message.
   */
  async #tidyDrafts(mailbox: AgentName): Promise<void> {
    for (const id of this.files.drafts(mailbox)) {
      const state = (await this.options.journal.copy(mailbox, id))?.state;
      if (state === 'settled' || state === 'gone') this.files.delete(this.files.draft(mailbox, id));
    }
    for (const id of this.files.keepings(mailbox)) {
      const keeping = this.files.keeping(mailbox, id);
      // Any process may move a whole file. A partial one may still have a writer, so it is deleted only when it is old.
      if (this.files.isWhole(keeping, id)) this.files.move(keeping, this.files.path(mailbox, 'cur', id));
      else if (this.#isOld(keeping)) this.files.delete(keeping);
    }
  }

  /**
   * Puts back a file in held/ whose row says that the copy waits: its reader renamed it after its lease had ended, or failed after that.
   * We claim the copy first, so that no reader claims it while we move the file.
   */
  async #putBackUnheld(mailbox: AgentName, id: MessageId): Promise<void> {
    const owner = newHolder(false);
    await this.options.journal.claim(mailbox, [id], owner, this.options.now() + PUT_BACK_MS);
    this.#step('H claimed');
    const because = { because: 'its file was in held/, and nobody held it' };
    await this.options.journal.release(mailbox, owner, [id], null, because, (_id, attention) => {
      this.putBack(mailbox, id, attention);
      this.#step('H put back');
    });
  }

  async adopt(mailbox: AgentName): Promise<number> {
    const open = await this.options.journal.openIds(mailbox);
    const loud = new Set(this.files.ids(mailbox, 'new'));
    const quiet = new Set(this.files.ids(mailbox, 'quiet'));
    return (await this.reconcile(mailbox, compareFolders(open, loud, quiet))).length;
  }

  /** Brings the rows into line with the folders. Returns the ids of the new copies. */
  async reconcile(mailbox: AgentName, { missing, strangers }: FolderDifferences): Promise<MessageId[]> {
    await this.#noteMissing(mailbox, missing);
    return this.adoptThese(mailbox, await this.#without(mailbox, strangers));
  }

  /** Makes rows for waiting files of other programs, and moves those that should wake nobody to quiet/. */
  async adoptThese(mailbox: AgentName, ids: MessageId[]): Promise<MessageId[]> {
    const entries: Entry[] = [];
    for (const id of ids) {
      for (const folder of ['new', 'quiet'] as const) {
        const message = this.files.read(mailbox, folder, id);
        if (message === 'unreadable') this.files.setAsideIfOld(mailbox, folder, id, this.options.now());
        else if (message && message !== 'shut') entries.push(await this.#entry(mailbox, message));
      }
    }
    const adopted = entries.slice(0, await this.#record(entries, 'stored'));
    for (const { message, copies } of adopted) {
      if (copies.some((copy) => isQuiet(copy.attention))) {
        this.files.make(mailbox);
        this.files.move(this.files.path(mailbox, 'new', message.id), this.files.path(mailbox, 'quiet', message.id));
      }
    }
    return adopted.map(({ message }) => message.id);
  }

  /** Handles copies whose row says that they wait, but whose file is not there. A file in held/ is put back; a file that is nowhere was taken by another program. */
  async #noteMissing(mailbox: AgentName, missing: MessageId[]): Promise<void> {
    for (const id of missing) {
      // The folders in the order in which a copy moves, forth and back, so that a moving copy is found.
      const places = ['tmp', 'new', 'quiet', 'held', 'new', 'quiet'] as const;
      if (this.files.hasDraft(mailbox, id)) continue;
      const place = places.find((one) => this.files.has(mailbox, one, id));
      // A reader may have claimed it meanwhile: then its file may be in held/ or deleted.
      if (place && place !== 'held') continue;
      const copy = await this.options.journal.copy(mailbox, id);
      if (copy?.state !== 'stored' || copy.fileless) continue;
      if (place) await this.#putBackUnheld(mailbox, id);
      else await this.options.journal.lost(mailbox, id);
    }
  }

  async #list(folder: string): Promise<MessageId[]> {
    return this.options.exporter ? this.options.exporter.list(folder) : idsIn(folder);
  }

  /** Publishes accepted messages that were not published, and deletes old drafts that were not accepted. */
  async #finishSends(): Promise<void> {
    for (const id of await this.#list(this.publisher.sending)) {
      const trace = await this.options.journal.trace(id);
      this.#step('H publish');
      if (trace) this.publisher.publish(id, trace.copies);
      else if (this.#isOld(this.publisher.mark(id))) this.#dropDraft(id);
    }
  }

  #isOld(path: string): boolean {
    const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    return changed !== undefined && this.options.now() - changed > DRAFT_MS;
  }

  #dropDraft(id: MessageId): void {
    for (const mailbox of this.files.mailboxes()) this.files.delete(this.files.path(mailbox, 'tmp', id));
    this.files.delete(this.publisher.mark(id));
  }

  /** Makes a row for every file, after the journal was lost or the machine restarted. */
  async #adoptEverything(): Promise<void> {
    // First, because a file that was never flushed may have lost its text: the journal has the text.
    await this.options.journal.recount((copy) => this.#export.whereIs(copy));
    this.#step('H recounted');
    const mailboxes = this.files.mailboxes();
    for (const mailbox of mailboxes) {
      await this.tidy(mailbox);
      await this.adoptThese(mailbox, await this.#unknown(mailbox, 'new'));
      await this.adoptThese(mailbox, await this.#unknown(mailbox, 'quiet'));
      const kept: Entry[] = [];
      for (const id of await this.#unknown(mailbox, 'cur')) {
        const message = this.files.read(mailbox, 'cur', id);
        if (message && message !== 'unreadable' && message !== 'shut') kept.push(await this.#entry(mailbox, message));
      }
      await this.#record(kept, 'kept');
    }
    for (const mailbox of mailboxes) await this.#finishDrafts(mailbox);
    this.#step('H complete');
    await this.options.journal.complete();
  }

  /**
   * Publishes drafts whose message has a row. The row of another recipient's copy is enough. For any other draft, "stored" was never
   * answered: its sender may still be at work, or may have sent the same text again under a new id.
   */
  async #finishDrafts(mailbox: AgentName): Promise<void> {
    for (const id of this.files.ids(mailbox, 'tmp')) {
      const draft = this.files.path(mailbox, 'tmp', id);
      const trace = await this.options.journal.trace(id);
      if (trace?.copies.some((copy) => copy.mailbox === mailbox)) this.publisher.publish(id, trace.copies);
      else if (trace && this.files.move(draft, this.files.path(mailbox, 'new', id)))
        await this.adoptThese(mailbox, [id]);
      else if (this.#isOld(draft)) this.files.delete(draft);
    }
  }

  async #unknown(mailbox: AgentName, folder: 'new' | 'quiet' | 'cur'): Promise<MessageId[]> {
    return this.#without(mailbox, this.files.ids(mailbox, folder));
  }

  /** Keeps only the ids that have no row. */
  async #without(mailbox: AgentName, ids: MessageId[]): Promise<MessageId[]> {
    const without: MessageId[] = [];
    for (const id of ids) if (!(await this.options.journal.copy(mailbox, id))) without.push(id);
    return without;
  }

  async #entry(mailbox: AgentName, message: Message): Promise<Entry> {
    const { attention, lineage } = await this.options.judge(mailbox, message);
    return { message: withLineage(message, lineage), key: message.parley?.key, copies: [{ mailbox, attention }] };
  }

  /** Makes rows and returns for how many entries. On a full disk it makes only the first few; the others get theirs after these were read. */
  async #record(entries: Entry[], as: 'stored' | 'kept'): Promise<number> {
    const batch = 500;
    for (let at = 0; at < entries.length; at += batch) {
      this.#step('H adopt');
      try {
        await this.options.journal.adopt(entries.slice(at, at + batch), as);
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        await this.options.journal.adopt(entries.slice(at, at + FEW), as);
        return Math.min(at + FEW, entries.length);
      }
    }
    return entries.length;
  }

  #step(name: string): void {
    this.options.onStep?.(name);
  }
}
