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

/** How many bytes at the end of a transcript are read first, to find the entry that the new one follows. */
const TAIL = 1024 * 1024;

export interface TranscriptOptions {
  /** Folders with `projects/<slug>/<session>.jsonl`: `~/.claude`, `~/.claude-shared`. */
  folders: readonly string[];
  session: string;
  /** The user has turned on this experimental way. */
  asked: boolean;
  /** Does Claude Code run this session now, in any form? A running session has its history in memory and does not read the file again. */
  isRunning: () => Promise<boolean>;
  now: () => Date;
}

/** The fields of a transcript entry that a following entry needs. */
interface Entry {
  uuid?: string;
  isSidechain?: boolean;
  cwd?: string;
  version?: string;
  gitBranch?: string;
  entrypoint?: string;
}

/**
 * Way 4: appends a user's entry to the transcript of a Claude session that does not run. The model sees the entry only if the session is
 * resumed, which nothing proves, so this way reports `offered` at most. spec: c2c#transcript
 *
 * Under a lock on the file, it checks whether the session runs, and appends all entries in one write. It changes nothing that is there. The id
 * of an entry is made from the message's id, so a message is never there twice. A crash leaves the write done or not done. On a full disk half
 * a line may remain: the next write ends that line, and no reader uses it.
 */
export class TranscriptWay implements Way {
  readonly name = 'transcript';

  constructor(readonly options: TranscriptOptions) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    const { asked, session, isRunning } = this.options;
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    if (!asked) return left('writing into transcripts is experimental and not turned on', false);
    const path = transcriptOf(this.options.folders, session);
    if (!path) return left(`Claude Code has no transcript of the session ${session}`, false);
    const fd = openSync(path, 'a+');
    try {
      if (!lockFile(fd)) return left('another program is writing into this transcript', true);
      if (await isRunning())
        return left('Claude Code runs this session, so it would not read the transcript again', true);
      if (signal.aborted) return left('Parley was stopped before it wrote anything', true);
      const written = this.#append(fd, parcels);
      if (written === null) return left('the transcript has no entry that a new one could follow', false);
      // If the session started meanwhile, it is unknown whether it read the end of the file before or after the write.
      const evidence = { way: this.name, transcript: path, entries: written, running: await isRunning() };
      return { outcome: 'offered', evidence };
    } finally {
      closeSync(fd);
    }
  }

  /** Returns how many entries were added, or null if there is no entry to follow. */
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

  /** The entry id of a message in this session. */
  #idOf({ id }: Parcel): string {
    return uuidFor(`${this.options.session} ${id}`);
  }
}

/** A UUID made from a text: equal texts have equal ids. */
export function uuidFor(text: string): string {
  const hex = new Bun.CryptoHasher('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** The path of a session's transcript. If there are several, the one that was written last. */
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

/** The end of a transcript, and the last entry there that belongs to the main conversation. */
function endOf(fd: number): { text: string; last: Entry | null } {
  const { size } = fstatSync(fd);
  for (const length of [Math.min(TAIL, size), size]) {
    const text = read(fd, size - length, length);
    const lines = text.split('\n');
    // The first line may be cut.
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
