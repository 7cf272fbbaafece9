import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { CopyNumber, LateCopies } from '../ledger/late.ts';
import type { LateWatchers } from './late-watchers.ts';
import type { Maildir } from './maildir.ts';

/**
 * Raises copies that may have no file yet. The back room may be about to write such a file where it was to wait quietly: then it is
 * moved once it is there.
 */
export class LateRaised {
  readonly #unfiled = new Map<string, MessageId>();

  constructor(
    readonly ledger: LateCopies,
    readonly maildir: Maildir,
    readonly watchers: LateWatchers,
  ) {}

  async raise(mailbox: AgentName, id: MessageId): Promise<boolean> {
    const standing = await this.ledger.standing(mailbox, id);
    const moved = await this.maildir.raise(mailbox, id);
    const isUnfiled = !moved && standing !== null && (await this.ledger.unfiledCount(1)) > 0;
    if (isUnfiled) this.#unfiled.set(nameOf({ seq: standing.seq, mailbox }), id);
    const raised = moved || (standing?.quiet ?? false);
    if (raised) await this.watchers.tellOf(mailbox, [id]);
    return raised;
  }

  /** The back room has published these. */
  async filed(copies: CopyNumber[]): Promise<void> {
    if (this.#unfiled.size === 0) return;
    for (const copy of copies) {
      const id = this.#unfiled.get(nameOf(copy));
      if (id && this.#unfiled.delete(nameOf(copy)) && (await this.maildir.raise(copy.mailbox, id))) {
        await this.watchers.tellOf(copy.mailbox, [id]);
      }
    }
  }

  allFiled(): void {
    this.#unfiled.clear();
  }
}

function nameOf({ seq, mailbox }: CopyNumber): string {
  return `${seq} ${mailbox}`;
}
