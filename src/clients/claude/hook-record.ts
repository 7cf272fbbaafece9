import type { MessageId } from '../../core/names.ts';
import type { ShownProof } from '../../core/ports/live-session.ts';
import type { HookRecord } from '../../delivery/client.ts';
import { linesFrom } from '../../sessions/follow.ts';
import { ProofReader, shownBy } from './proof.ts';
import { placeOfMail } from './transcript-search.ts';
import { transcriptOf } from './transcript.ts';

/** What the transcript of a session proves about messages that our hook printed. The transcript may not exist yet. */
export class ClaudeHookRecord implements HookRecord {
  readonly #reader: ProofReader;
  #from: { path: string; offset: number } | null = null;

  constructor(
    readonly folder: string,
    readonly session: string,
    readonly ids: readonly MessageId[],
    readonly since: number,
  ) {
    this.#reader = new ProofReader(ids);
  }

  get isThere(): boolean {
    return this.#from !== null;
  }

  shown(): Map<MessageId, ShownProof> {
    const path = this.#from?.path ?? transcriptOf([this.folder], this.session);
    if (path === null) return new Map();
    this.#from ??= { path, offset: placeOfMail(path, this.ids, this.since) };
    for (const line of linesFrom(path, this.#from.offset)) {
      this.#reader.take(line);
      this.#from.offset = line.to;
    }
    return new Map(
      this.ids
        .filter((id) => this.#reader.of(id).answer)
        .map((id) => [id, { step: 'shown', evidence: shownBy(path, this.#reader, id) }]),
    );
  }

  /**
   * Will the next request contain this message? Yes, if the client recorded the end of a failed request below it. Without such an end, the
   * user may have taken the prompt back; that shows only when the next prompt does not follow it.
   */
  stays(id: MessageId, isResumed: boolean): boolean {
    const place = this.#reader.placeOf(id);
    return place !== null && (isResumed || place.hasEnd);
  }
}
