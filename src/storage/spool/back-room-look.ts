import { statSync } from 'node:fs';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Looked } from './back-room-talk.ts';
import type { MaildirFiles } from './maildir-files.ts';
import { compared } from './maildir-found.ts';

/** A folder that changed this shortly before it was listed may change once more without a new time. */
const BLUR_MS = 100;
/** A look that took this long is not repeated before five times its length: a huge mailbox must not fill the clerk's day. */
const LONG_MS = 20;

const NOTHING: Looked = { missing: [], strangers: [], arrived: [] };

/** What we know of a mailbox since the last look. */
interface Known {
  /** The times of new/ and quiet/ as they were before it was listed; null: look in any case. */
  times: string | null;
  notBefore: number;
  /** For a watched one: what stood in new/, or was brought there by ourselves. */
  seen: Set<MessageId> | null;
}

/** Notices what other programs do in mailboxes: what they bring, what they take. It lists a folder only if its time has changed. */
export class Looker {
  readonly #known = new Map<AgentName, Known>();

  constructor(
    readonly files: MaildirFiles,
    readonly ledger: Ledger,
  ) {}

  /** From now on news of this mailbox are gathered. What came after this number in the ledger is news already. */
  async watch(mailbox: AgentName, since: number): Promise<void> {
    const newer = new Set((await this.ledger.shelf(mailbox, since, Number.MAX_SAFE_INTEGER)).map(({ id }) => id));
    const known = this.#of(mailbox);
    const open = [...(await this.ledger.open(mailbox)).values()];
    known.seen = new Set(open.filter(({ state, id }) => state === 'stored' && !newer.has(id)).map(({ id }) => id));
    known.times = null;
  }

  unwatch(mailbox: AgentName): void {
    this.#known.delete(mailbox);
  }

  /** These come into new/ by our own doing. */
  expected(mailbox: AgentName, ids: MessageId[]): void {
    const seen = this.#known.get(mailbox)?.seen;
    if (seen) for (const id of ids) seen.add(id);
  }

  /** The watched mailboxes. */
  due(): AgentName[] {
    return [...this.#known].filter(([, { seen }]) => seen).map(([mailbox]) => mailbox);
  }

  async look(mailbox: AgentName): Promise<Looked> {
    const known = this.#of(mailbox);
    const begun = Date.now();
    this.files.make(mailbox);
    const { text, newest } = this.#times(mailbox);
    if (text === known.times || begun < known.notBefore) return NOTHING;
    const open = await this.ledger.openIds(mailbox);
    const loud = new Set(this.files.ids(mailbox, 'new'));
    const found = compared(open, loud, new Set(this.files.ids(mailbox, 'quiet')));
    const { seen } = known;
    const arrived = seen
      ? loud
          .values()
          .filter((id) => !seen.has(id))
          .toArray()
      : [];
    if (seen) known.seen = loud;
    // A stranger may be half written: its folder does not change when the rest comes.
    known.times = found.strangers.length === 0 && begun - newest > BLUR_MS ? text : null;
    const took = Date.now() - begun;
    known.notBefore = took < LONG_MS ? 0 : begun + 5 * took;
    return { ...found, arrived };
  }

  #times(mailbox: AgentName): { text: string; newest: number } {
    const times = (['new', 'quiet'] as const).map((folder) => {
      const { mtimeMs, ino } = statSync(this.files.folder(mailbox, folder));
      return { mtimeMs, ino };
    });
    return {
      text: times.map(({ mtimeMs, ino }) => `${ino} ${mtimeMs}`).join(),
      newest: Math.max(...times.map(({ mtimeMs }) => mtimeMs)),
    };
  }

  #of(mailbox: AgentName): Known {
    const known = this.#known.get(mailbox) ?? { times: null, notBefore: 0, seen: null };
    this.#known.set(mailbox, known);
    return known;
  }
}
