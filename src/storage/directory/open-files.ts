import type { AgentName } from '../../protocol/names.ts';
import { once } from '../once.ts';
import { standIn } from '../stand-in.ts';
import type { AgentRecord, Directory } from './directory.ts';
import type * as Whole from './files.ts';
import { RecordPlaces, seenLately } from './record-places.ts';

/** So many agents are remembered at a time: a tool server may stay for weeks, and meet everybody. */
const MOST_KNOWN = 100;

/** As much of the directory as a send asks for. What each method promises stands in directory.ts. */
class FilesLook implements Pick<Directory, 'get' | 'seen'> {
  readonly #places: RecordPlaces;
  readonly #read = new Map<AgentName, Pick<AgentRecord, 'lastSeen'>>();
  readonly #now: () => number;
  readonly #whole: () => Directory;

  constructor(root: string, now: () => number, whole: () => Directory) {
    this.#places = new RecordPlaces(root);
    this.#now = now;
    this.#whole = whole;
  }

  async get(name: AgentName): Promise<AgentRecord | null> {
    const record = this.#places.read(name);
    if (this.#read.size >= MOST_KNOWN) this.#read.clear();
    if (record) this.#read.set(name, { lastSeen: record.lastSeen });
    return record;
  }

  async seen(name: AgentName): Promise<void> {
    // When somebody was seen can only grow: what was read a moment ago may be enough.
    const known = this.#read.get(name);
    if (!known || !seenLately(known, this.#now())) await this.#whole().seen(name);
  }
}

/** The records on disk. What a send does not ask for is loaded when it is asked for. */
export function openFiles(root: string, now: () => number): Directory {
  const whole = once(() => new (require('./files.ts') as typeof Whole).FilesDirectory(root, now));
  return standIn(new FilesLook(root, now, whole), whole);
}
