import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  statSync,
  writeSync,
} from 'node:fs';
import { lockFile } from '../../sessions/pty.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';

/** A transcript is read from its end; an entry to go on from is rarely further away than this. */
const TAIL = 1024 * 1024;

export interface TranscriptOptions {
  /** Folders that have `projects/<slug>/<session>.jsonl`: `~/.claude`, `~/.claude-shared`. */
  folders: readonly string[];
  session: string;
  /** Experimental: only for those who asked for it. */
  asked: boolean;
  /** Whether Claude Code runs this session now, in whatever form. A running one keeps its history in memory and never looks again. */
  isRunning: () => Promise<boolean>;
  now: () => Date;
}

/** An entry of a transcript of Claude Code, as far as a new one goes on from it. */
interface Entry {
  uuid?: string;
  isSidechain?: boolean;
  cwd?: string;
  version?: string;
  gitBranch?: string;
  entrypoint?: string;
}

/**
 * Way 4: a user's entry at the end of the transcript of a Claude session that does not run. Its model sees it when the session is
 * resumed, and not before; nothing proves that it ever will be. So the most that this way says is `offered`. spec: c2c#transcript
 *
 * Under a lock on the file itself: it is checked whether the session runs, all entries go in by one write, and nothing that is
 * there is touched. An entry's id is made from the message's, so that one message is never there twice. A crash leaves the write
 * done or not done; half a line of it, which the disk could be too full for, is ended by the next one and read by nobody.
 */
export class TranscriptWay implements Way {
  readonly name = 'transcript';

  constructor(readonly options: TranscriptOptions) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    const { asked, session, isRunning } = this.options;
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    if (!asked) return left('writing into transcripts is experimental, and was not asked for', false);
    const path = transcriptOf(this.options.folders, session);
    if (!path) return left(`Claude Code has no transcript of the session ${session}`, false);
    const fd = openSync(path, 'a+');
    try {
      if (!lockFile(fd)) return left('somebody else writes into this transcript just now', true);
      if (await isRunning()) return left('Claude Code runs this session: it would not see what is written', true);
      if (signal.aborted) return left('it was stopped before', true);
      const written = this.#append(fd, parcels);
      if (written === null) return left('the transcript has no entry to go on from', false);
      // It may have started in between; whether it read the end of the file before or after the write is then unknown.
      const evidence = { way: this.name, transcript: path, entries: written, running: await isRunning() };
      return { outcome: 'offered', evidence };
    } finally {
      closeSync(fd);
    }
  }

  /** How many entries are new; null if nothing can be added. */
  #append(fd: number, parcels: readonly Parcel[]): number | null {
    const { text, last } = endOf(fd);
    if (!last?.uuid) return null;
    const fresh = parcels
      .map((parcel) => ({ ...parcel, uuid: this.#idOf(parcel) }))
      .filter(({ uuid }) => !holds(fd, uuid));
    let parent = last.uuid;
    const lines = fresh.map((parcel) => {
      const line = JSON.stringify(this.#entry(parcel.text, parcel.uuid, parent, last));
      parent = parcel.uuid;
      return `${line}\n`;
    });
    if (lines.length > 0) writeSync(fd, `${text.endsWith('\n') || text === '' ? '' : '\n'}${lines.join('')}`);
    return lines.length;
  }

  #entry(content: string, uuid: string, parentUuid: string, last: Entry): Record<string, unknown> {
    const { cwd, version, gitBranch, entrypoint } = last;
    return {
      parentUuid,
      isSidechain: false,
      promptId: uuid,
      type: 'user',
      message: { role: 'user', content },
      uuid,
      timestamp: this.options.now().toISOString(),
      userType: 'external',
      ...(entrypoint !== undefined && { entrypoint }),
      ...(cwd !== undefined && { cwd }),
      sessionId: this.options.session,
      ...(version !== undefined && { version }),
      ...(gitBranch !== undefined && { gitBranch }),
    };
  }

  /** The same message has the same id in the same session. */
  #idOf({ id }: Parcel): string {
    return uuidFor(`${this.options.session} ${id}`);
  }
}

/** The same text always has the same id. */
export function uuidFor(text: string): string {
  const hex = new Bun.CryptoHasher('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** The transcript of a session; of several the one that was written last. */
export function transcriptOf(folders: readonly string[], session: string): string | null {
  if (!/^[A-Za-z0-9_-]{1,128}$/.test(session)) return null;
  const found = folders.flatMap((folder) => {
    const projects = `${folder}/projects`;
    if (!existsSync(projects)) return [];
    return readdirSync(projects).map((slug) => `${projects}/${slug}/${session}.jsonl`);
  });
  const paths = new Set(found.filter((path) => existsSync(path)).map((path) => realpathSync(path)));
  return [...paths].toSorted((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0] ?? null;
}

/** The end of a transcript, and the last entry of the conversation itself in it. */
function endOf(fd: number): { text: string; last: Entry | null } {
  const { size } = fstatSync(fd);
  for (const length of [Math.min(TAIL, size), size]) {
    const text = read(fd, size - length, length);
    const lines = text.split('\n');
    // Where it was cut the first line is half a line.
    if (length < size) lines.shift();
    const last = lines
      .toReversed()
      .map(entryIn)
      .find((entry) => entry?.uuid !== undefined && entry.isSidechain !== true);
    if (last) return { text, last };
  }
  return { text: '', last: null };
}

function holds(fd: number, uuid: string): boolean {
  return read(fd, 0, fstatSync(fd).size).includes(`"uuid":"${uuid}"`);
}

function read(fd: number, from: number, length: number): string {
  const bytes = Buffer.alloc(length);
  let done = 0;
  for (let got = -1; done < length && got !== 0; done += got)
    got = readSync(fd, bytes, done, length - done, from + done);
  return bytes.toString('utf8', 0, done);
}

function entryIn(line: string): Entry | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : null;
  } catch {
    return null;
  }
}

const left = (because: string, retry: boolean): Attempt => ({ outcome: 'left', because, retry });
