import { statSync } from 'node:fs';
import { isTooDeep } from '../../protocol/depth.ts';
import type { AgentName } from '../../protocol/names.ts';
import { readPlain } from '../plain-file.ts';
import { AgentRecord } from './directory.ts';

/** `lastSeen` is rewritten at most this often: a send should not cost a second file. */
const SEEN_MS = 60_000;

/** Other programs write a record in place: one that cannot be read and was changed so lately may be half written. */
const HALF_WRITTEN_MS = 300;
const PAUSE_MS = 2;

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
    return this.whole(name)?.record ?? null;
  }

  /** A record and its text, both of one moment. Null: there is none, or nothing that can be read. */
  whole(name: AgentName): { record: AgentRecord; text: string } | null {
    try {
      for (const end = performance.now() + HALF_WRITTEN_MS; ; Bun.sleepSync(PAUSE_MS)) {
        const text = this.text(name);
        const record = recordFrom(name, text);
        if (record) return { record, text };
        if (performance.now() > end || !this.#isYoung(name)) return null;
      }
    } catch {
      return null;
    }
  }

  #isYoung(name: AgentName): boolean {
    return Math.abs(Date.now() - statSync(this.path(name)).mtimeMs) < HALF_WRITTEN_MS;
  }

  text(name: AgentName): string {
    return readPlain(this.path(name), 'follow').toString('utf8');
  }
}

/** A record must be readable and must be its own name's: one bad record never hides the others. */
export function recordFrom(name: AgentName, text: string): AgentRecord | null {
  try {
    const value: unknown = JSON.parse(text);
    const record = isTooDeep(value) ? null : AgentRecord.safeParse(value);
    return record?.success && record.data.name === name ? record.data : null;
  } catch {
    return null;
  }
}

export function seenLately(record: Pick<AgentRecord, 'lastSeen'>, now: number): boolean {
  return isLately(seenAt(record), now);
}

/** When its agent was last seen, in ms. */
export function seenAt({ lastSeen }: Pick<AgentRecord, 'lastSeen'>): number {
  return Date.parse(lastSeen) || 0;
}

export function isLately(at: number, now: number): boolean {
  return Math.abs(now - at) < SEEN_MS;
}
