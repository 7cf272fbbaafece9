import type { Home } from '../core/mail/workspace.ts';
import type { LiveSession } from '../core/ports/live-session.ts';
import type { Log } from '../core/service.ts';
import { OfferedTexts } from './hook-offered.ts';
import type { OfferedDeps } from './hook-offered.ts';
import { HookSessionFolder, namesIn } from './hook-session.ts';

/** The texts that hooks printed in the sessions of one home. The follower settles them by the clients' records. */
export class PrintedTexts {
  readonly #texts = new Map<string, OfferedTexts>();

  constructor(
    readonly home: Home,
    readonly recordOf: OfferedDeps['recordOf'],
    readonly log: Log,
  ) {}

  /** Settles what the records of these sessions show. What they do not show yet is left to the session's next event. */
  async settle(sessions: readonly Pick<LiveSession, 'client' | 'id'>[]): Promise<void> {
    for (const { client, id: session } of sessions) {
      for (const { who, id } of (await this.#textsOf(session)?.settleProven(client)) ?? [])
        this.log('mail_resolved', { mailbox: who.name, message: id, client, session, outcome: 'shown' });
    }
  }

  /** Settles what the records show for every session that a hook bound, also for sessions that have ended. */
  async settleAll(): Promise<void> {
    const { root } = this.home;
    const all = namesIn(`${root}/sessions`).flatMap((id) => {
      const client = HookSessionFolder.open(root, id)?.binding()?.by;
      return client === undefined ? [] : [{ id, client }];
    });
    await this.settle(all);
    const ids = new Set(all.map(({ id }) => id));
    for (const id of this.#texts.keys()) if (!ids.has(id)) this.#texts.delete(id);
  }

  #textsOf(id: string): OfferedTexts | null {
    const { home, recordOf, log } = this;
    const known = this.#texts.get(id);
    const session = HookSessionFolder.open(home.root, id);
    if (known || !session) return known ?? null;
    const texts = new OfferedTexts(session, {
      readerNamed: async (name) => ((await home.directory.get(name)) ? { name, home } : null),
      recordOf,
      worksSince: async () => null,
      complain: (error) =>
        log('hook_trouble', { session: id, because: error instanceof Error ? error.message : String(error) }),
    });
    this.#texts.set(id, texts);
    return texts;
  }
}
