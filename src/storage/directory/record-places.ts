import { readFileSync } from '../fs.ts';
import type { AgentName } from '../../protocol/names.ts';
import { system } from '../platform/system.ts';
import { AgentRecord } from './directory.ts';

/** `lastSeen` is rewritten at most this often: a send should not cost a second file. */
const SEEN_MS = 60_000;

/** The records of a home as files, `agents/<name>.json`, shared with other Backchannel programs. */
export class RecordPlaces {
  readonly folder: string;

  constructor(readonly root: string) {
    this.folder = `${root}/agents`;
  }

  path(name: AgentName): string {
    return `${this.folder}/${name}.json`;
  }

  read(name: AgentName): AgentRecord | null {
    try {
      return recordFrom(name, this.text(name));
    } catch {
      return null;
    }
  }

  text(name: AgentName): string {
    // Another program may have left a pipe here: wait for nothing.
    return readFileSync(this.path(name), 'utf8', system.open.RDONLY | system.open.NONBLOCK);
  }
}

/** A record must be readable and must be its own name's: one bad record never hides the others. */
export function recordFrom(name: AgentName, text: string): AgentRecord | null {
  try {
    const record = AgentRecord.safeParse(JSON.parse(text));
    return record.success && record.data.name === name ? record.data : null;
  } catch {
    return null;
  }
}

export function seenLately(record: Pick<AgentRecord, 'lastSeen'>, now: number): boolean {
  return Math.abs(now - (Date.parse(record.lastSeen) || 0)) < SEEN_MS;
}
