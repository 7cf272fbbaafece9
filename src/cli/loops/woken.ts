import { readFileSync } from 'node:fs';
import * as v from 'valibot';
import type { WakeNotes, Woken } from '../../delivery/wake.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Schema } from '../../protocol/schema.ts';
import { isMissing } from '../../storage/disk.ts';
import { replaceWhole } from './folders.ts';

const Noted = new Schema(() => v.object({ ids: v.array(v.string()), at: v.number() }));

/** What a session was woken for, in a file of its own that outlives every loop. spec: c2c#wake */
export class WokenFile implements WakeNotes {
  #known: Woken | undefined;

  constructor(readonly path: string) {}

  read(): Woken {
    this.#known ??= this.#load();
    return this.#known;
  }

  write(woken: Woken): void {
    replaceWhole(this.path, `${JSON.stringify(woken)}\n`);
    this.#known = woken;
  }

  #load(): Woken {
    try {
      const noted = Noted.safeParse(JSON.parse(readFileSync(this.path, 'utf8')));
      return noted.success ? { ids: noted.data.ids as MessageId[], at: noted.data.at } : { ids: [], at: 0 };
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return { ids: [], at: 0 };
      throw error;
    }
  }
}
