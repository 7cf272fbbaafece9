import { readFileSync } from 'node:fs';
import { readEntry } from '../../protocols/c2c/entry.ts';
import type { BrokerEntry } from '../../protocols/c2c/entry.ts';
import { isMissing } from '../../storage/disk.ts';
import { writeWhole } from './folders.ts';

/** Where the bridge of a session notes what is on its way: beside the broker, as the established bridge has it. spec: c2c#wire */
export function wireSpoolPath(brokerRoot: string, session: string): string {
  return `${brokerRoot.slice(0, brokerRoot.lastIndexOf('/'))}/kimi-wire/${session}.spool.json`;
}

/**
 * What is on its way to a kimi, on disk before kimi hears of it. Our own copies are held in the ledger meanwhile and come back from
 * there; what another bridge left here is nowhere else.
 */
export class WireSpool {
  constructor(readonly path: string) {}

  read(): BrokerEntry[] {
    try {
      const list: unknown = JSON.parse(readFileSync(this.path, 'utf8'));
      return Array.isArray(list) ? list.flatMap((one) => readEntry(one) ?? []) : [];
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return [];
      throw error;
    }
  }

  write(entries: readonly BrokerEntry[]): void {
    writeWhole(this.path, `${JSON.stringify(entries)}\n`);
  }
}
