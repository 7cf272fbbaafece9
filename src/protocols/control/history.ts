import type { PromptState, SessionMessage, SessionStore } from '../../core/ports/session-store.ts';
import { EarlierFiles, highestEarlierId } from './earlier-files.ts';
import { lineOf } from './history-files.ts';
import type { HistoryFiles } from './history-files.ts';

/** The most bytes of text in one answer. The rest comes with the next page. */
const ANSWER_BYTES = 16 * 1024 * 1024;

/** One line of history in an answer. */
export type HistoryLine = Record<string, unknown>;

export interface HistoryRequest {
  after: number | undefined;
  limit: number;
  /** Only lines of exactly this sender. */
  from: string | undefined;
}

const SENDERS = ['human', 'claude', 'api'] as const;

/** The history of each session: the lines of the store, and before them those that an earlier ccc left in files. */
export class SessionHistory {
  #earlier: EarlierFiles | undefined;

  constructor(
    readonly store: SessionStore,
    readonly files: HistoryFiles,
    readonly root: string,
  ) {}

  /** Sets the first id of a home above those of an earlier ccc. Call it before the first line is stored. */
  async open(): Promise<void> {
    let last = await this.store.lastEarlierId();
    if (last === null) {
      last = await highestEarlierId(this.root);
      await this.store.raiseIds(last);
    }
    this.#earlier = new EarlierFiles(last);
  }

  async page(session: string, { after, limit, from }: HistoryRequest): Promise<HistoryLine[]> {
    const sender = SENDERS.find((one) => one === from);
    if (from !== undefined && sender === undefined) return [];
    // A poll for the answer to a sent message gets that answer, even if a person typed in between.
    if (after !== undefined && limit === 1 && sender === 'claude' && (await this.#isSent(session, after)))
      return [await this.store.replyTo(after)].flatMap((reply) => (reply ? [lineOf(reply)] : []));
    const folder = this.files.folderOf(session);
    const own = async (page: { after?: number; limit: number }): Promise<HistoryLine[]> =>
      (await this.store.history({ session, from: sender, bytes: ANSWER_BYTES, ...page })).map(lineOf);
    const earlier = this.#opened();
    if (after === undefined) {
      const newest = await own({ limit });
      const missing = isFull(newest) ? 0 : limit - newest.length;
      const before = missing > 0 ? await this.#before(earlier, folder, missing, sender) : [];
      return fitting([...before, ...newest].reverse()).reverse();
    }
    const before =
      after < earlier.lastId ? await earlier.after(folder, after, { limit, from: sender, bytes: ANSWER_BYTES }) : [];
    const missing = isFull(before) ? 0 : limit - before.length;
    return fitting([...before, ...(missing > 0 ? await own({ after, limit: missing }) : [])]);
  }

  /** The newest line of a session; null if it has none. */
  async last(session: string): Promise<HistoryLine | null> {
    const own = await this.store.last(session);
    if (own) return lineOf(own);
    const [line] = await this.#before(this.#opened(), this.files.folderOf(session), 1);
    return line ?? null;
  }

  /** The state of a prompt; null if no prompt has this id. */
  async stateOf(id: number): Promise<PromptState | null> {
    return (await this.store.prompt(id))?.state ?? null;
  }

  async #before(
    earlier: EarlierFiles,
    folder: string,
    limit: number,
    from?: SessionMessage['from'],
  ): Promise<HistoryLine[]> {
    return earlier.lastId === 0 ? [] : earlier.newest(folder, { limit, from, bytes: ANSWER_BYTES });
  }

  async #isSent(session: string, id: number): Promise<boolean> {
    return (await this.store.prompt(id))?.session === session;
  }

  #opened(): EarlierFiles {
    if (!this.#earlier) throw new Error('the history was not opened');
    return this.#earlier;
  }
}

/** The first lines that fit into one answer; at least one. */
function fitting(lines: HistoryLine[]): HistoryLine[] {
  let bytes = 0;
  const over = lines.findIndex((line, at) => {
    bytes += bytesOf(line);
    return at > 0 && bytes > ANSWER_BYTES;
  });
  return over < 0 ? lines : lines.slice(0, over);
}

/** True if reading stopped here, so later lines were not read. */
function isFull(lines: HistoryLine[]): boolean {
  return lines.reduce((sum, line) => sum + bytesOf(line), 0) > ANSWER_BYTES;
}

function bytesOf(line: HistoryLine): number {
  return Buffer.byteLength(String(line['text']));
}
