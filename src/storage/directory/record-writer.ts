import { renameSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { AgentName } from '../../protocol/names.ts';
import { explained } from '../disk.ts';
import type { AgentRecord, Amendment } from './directory.ts';
import type { RecordFiles } from './record-files.ts';
import { recordFrom } from './record-places.ts';
import { recordText, rewritten } from './rules.ts';

/** What a change makes of a record; null: nothing. */
type Change = (record: AgentRecord) => Partial<AgentRecord> | null;

/** So often a change is made anew because somebody else has changed the record, or is writing it, before everybody has to wait. */
const TRIES = 8;
const PAUSE_MS = 40;

/**
 * Changes records while others are served: what shall stand in a record's place is written and flushed beside it by the system's
 * threads, and then put there under the lock, if the record is still what was changed. Changes of one record wait for one another.
 */
export class RecordWriter {
  readonly #turns = new Map<AgentName, Promise<unknown>>();

  constructor(
    readonly files: RecordFiles,
    /** Told what stands on disk now, before anybody can change it again; null: nothing. */
    readonly written: (name: AgentName, record: AgentRecord | null) => void,
  ) {}

  /** Makes a record; false if there is one, whatever it is. `check` refuses it under the lock, by throwing. */
  create(record: AgentRecord, check: () => void): Promise<boolean> {
    const { name } = record;
    return this.#inTurn(name, async () => {
      check();
      if (this.files.isThere(name)) return false;
      return this.#put(name, recordText(record), () => {
        check();
        return !this.files.isThere(name);
      });
    });
  }

  /** Of many changes at once none is lost. */
  change(name: AgentName, change: Change): Promise<AgentRecord> {
    return this.#inTurn(name, () => this.#change(name, change));
  }

  /** It may depend on everybody's record: all others wait for it. That is rare. */
  amend(name: AgentName, change: Amendment): Promise<AgentRecord> {
    return this.#inTurn(name, async () => this.files.amend(name, change, (record) => this.written(name, record)));
  }

  remove(name: AgentName): Promise<void> {
    return this.#inTurn(name, async () => {
      this.files.remove(name);
      this.written(name, null);
    });
  }

  /** Waits for what was begun. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#turns.values());
  }

  async #change(name: AgentName, change: Change): Promise<AgentRecord> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const before = this.files.textIfAny(name);
      if (before === null) break;
      const record = recordFrom(name, before ?? '');
      if (before && record) {
        const after = changedText(before, record, change);
        if (after === before) return record;
        if (await this.#put(name, after, () => this.files.textIfAny(name) === before)) return parsed(name, after);
      } else await Bun.sleep(PAUSE_MS);
    }
    return this.#changeAtOnce(name, change);
  }

  /** Nobody comes between; everybody waits. */
  #changeAtOnce(name: AgentName, change: Change): AgentRecord {
    return this.files.locked(() => {
      const { record, text } = this.files.wholeOrRefuse(name);
      const after = changedText(text, record, change);
      this.files.write(name, after);
      this.written(name, parsed(name, after));
      return parsed(name, after);
    });
  }

  async #put(name: AgentName, text: string, mayStand: () => boolean): Promise<boolean> {
    const draft = `${this.files.folder}/.${name}.${crypto.randomUUID()}`;
    try {
      this.files.makeFolder();
      await writeFile(draft, text, { mode: 0o600, flush: true });
      return this.files.locked(() => {
        if (!mayStand()) return false;
        renameSync(draft, this.files.path(name));
        this.written(name, parsed(name, text));
        return true;
      });
    } catch (error) {
      throw explained(error, this.files.root, 'nothing was changed');
    } finally {
      rmSync(draft, { force: true });
    }
  }

  async #inTurn<T>(name: AgentName, act: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(name);
    const turn = (async () => {
      await before?.catch(() => {});
      return act();
    })();
    this.#turns.set(name, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(name) === turn) this.#turns.delete(name);
    }
  }
}

function changedText(text: string, record: AgentRecord, change: Change): string {
  const changed = change(record);
  return changed ? rewritten(text, changed) : text;
}

function parsed(name: AgentName, text: string): AgentRecord {
  const record = recordFrom(name, text);
  if (!record) throw new Error(`the record of ${name} cannot be read by who wrote it`);
  return record;
}
