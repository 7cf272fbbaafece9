import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { isMessageId } from '../../protocol/names.ts';
import type { MessageId } from '../../protocol/names.ts';
import { idsIn } from '../spool/maildir-places.ts';

/** As long as traces are kept unless the user says otherwise: nobody asks for an older one by the id of the outbox. */
const KEEP_MS = 180 * 24 * 60 * 60 * 1000;

/**
 * What was queued here under one id and stored by the relay under another: one small file each, `ids/<our id>.json`, that holds the
 * relay's id. A relay of ours keeps our id, so most homes have none. An alias that is lost costs a convenience: nothing is thrown.
 */
export class Aliases {
  readonly #folder: string;

  constructor(
    root: string,
    readonly now: () => number,
  ) {
    this.#folder = `${root}/ids`;
  }

  note(ours: MessageId, theirs: MessageId): void {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      this.#forgetOld();
      writeFileSync(this.#path(ours), JSON.stringify(theirs), { mode: 0o600 });
    } catch {
      // The message itself was sent.
    }
  }

  /** The relay's ids of what was queued under an id that begins so. */
  like(prefix: string): MessageId[] {
    if (prefix === '') return [];
    return idsIn(this.#folder)
      .filter((id) => id.startsWith(prefix))
      .flatMap((id) => this.#read(id) ?? []);
  }

  /** The id under which this message of the relay was queued here. */
  oursFor(theirs: MessageId): MessageId | undefined {
    return idsIn(this.#folder).find((id) => this.#read(id) === theirs);
  }

  #read(id: MessageId): MessageId | undefined {
    try {
      const theirs: unknown = JSON.parse(readFileSync(this.#path(id), 'utf8'));
      return isMessageId(theirs) ? theirs : undefined;
    } catch {
      return undefined;
    }
  }

  #forgetOld(): void {
    for (const id of idsIn(this.#folder)) {
      const { mtimeMs = 0 } = statSync(this.#path(id), { throwIfNoEntry: false }) ?? {};
      if (this.now() - mtimeMs > KEEP_MS) rmSync(this.#path(id), { force: true });
    }
  }

  #path(id: MessageId): string {
    return `${this.#folder}/${id}.json`;
  }
}
