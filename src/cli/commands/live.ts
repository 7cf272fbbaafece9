import { existsSync } from 'node:fs';
import { command } from '../../core/command.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { shortId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import type { Message } from '../../core/message.ts';
import type { HistoryRow } from '../../core/ports/journal.ts';
import { reasonOf, Refusal } from '../../core/refusal.ts';
import { HOST_NAME } from '../../core/signal.ts';
import { countFrom } from '../../core/time.ts';
import { openOtherHomes } from '../../daemon/homes.ts';
import type { Context } from '../context.ts';
import { inWindow, UnseenSteps } from '../steps.ts';
import type { CopyStep } from '../steps.ts';
import { gist, headline } from '../words.ts';

/** How many of the newest messages of a home are watched, also if they have ended: an answer or a proof may follow. Also a page of history. */
const NEWEST = 50;
/** How many are watched in all. Of those before the newest, only what has not ended. */
const WATCHED = 500;
const LOOK_MS = 250;

export default command({
  usage: 'live',
  about:
    'Shows the messages of all homes as they happen, with each proven step. It takes nothing and changes nothing. Ends with Ctrl-C.\n' +
    'With --json: one line per message and per step. --verbose gives the whole evidence.',
  options: {
    last: { type: 'string', value: 'n', help: `begin with the last n messages (default 5, at most ${NEWEST})` },
  },
  examples: ['parley live', 'parley live --last 20', 'parley live --json'],
  async run(context: Context, values) {
    const last = Math.min(countFrom(values.last, 5), NEWEST);
    const { env, settings } = context;
    let watches: LiveHome[] = [];
    const watchAll = async (homes: readonly Home[], shown: number): Promise<void> => {
      for (const home of homes) {
        const watch = new LiveHome(context, home);
        watches.push(watch);
        await watch.begin(shown);
      }
    };
    const told = new Set<string>();
    const tell = (error: unknown): void => {
      const why = `parley: a home is left out: ${reasonOf(error)}`;
      if (!told.has(why)) context.note(why);
      told.add(why);
    };
    /** What is wrong with the home of another folder does not end the view of this one. */
    const watchOthers = async (shown: number): Promise<void> => {
      try {
        await watchAll(openOtherHomes(env, new Set(watches.map(({ home }) => home.root)), settings.durability), shown);
      } catch (error) {
        tell(error);
      }
    };
    const own = new Set(context.workspace.homes);
    await watchAll(context.workspace.homes, last);
    await watchOthers(last);
    if (!context.json) context.note('waiting for messages; Ctrl-C ends it');
    for (;;) {
      // All messages of a home that was made meanwhile are news.
      await watchOthers(NEWEST);
      const deleted = new Set<LiveHome>();
      for (const watch of watches) {
        try {
          await watch.look();
        } catch (error) {
          const isDeleted = !existsSync(`${watch.home.root}/ledger.db`);
          const why = isDeleted ? new Refusal('not_found', `${watch.home.root} was deleted`) : error;
          if (own.has(watch.home)) throw why;
          tell(why);
          if (isDeleted) deleted.add(watch);
        }
      }
      watches = watches.filter((watch) => !deleted.has(watch));
      await Bun.sleep(LOOK_MS);
    }
  },
});

interface Watched {
  unseen: UnseenSteps;
  hasEnded: boolean;
}

/** What is new in one home since the last look. */
class LiveHome {
  /** The oldest first. */
  readonly #watched = new Map<MessageId, Watched>();
  /** All messages up to this one were shown, or are older than those that are. */
  #newest = 0;

  constructor(
    readonly context: Context,
    readonly home: Home,
  ) {}

  async begin(last: number): Promise<void> {
    const rows = await this.home.journal.history({ limit: NEWEST });
    // What is older than those that are shown is not news.
    for (const { message } of rows.slice(last).toReversed()) await this.#newSteps(message.id);
    this.#newest = rows[last]?.seq ?? 0;
  }

  async look(): Promise<void> {
    for (const id of this.#watched.keys()) this.#showSteps(id, await this.#newSteps(id));
    for (const { message, recipients } of await this.#newRows()) {
      // A notice that nobody could get waits for an owner.
      if (message.from === HOST_NAME && recipients.length === 0) continue;
      this.#showMessage(message);
      this.#showSteps(message.id, await this.#newSteps(message.id));
    }
    const older = [...this.#watched].slice(0, -NEWEST);
    const open = older.filter(([, { hasEnded }]) => !hasEnded).slice(NEWEST - WATCHED);
    for (const one of older) if (!open.includes(one)) this.#watched.delete(one[0]);
  }

  /** The oldest first, however many there are. */
  async #newRows(): Promise<HistoryRow[]> {
    const rows: HistoryRow[] = [];
    for (;;) {
      const page = await this.home.journal.history({ limit: NEWEST, before: rows.at(-1)?.seq });
      const fresh = page.filter(({ seq }) => seq > this.#newest);
      rows.push(...fresh);
      if (fresh.length < NEWEST) break;
    }
    this.#newest = rows[0]?.seq ?? this.#newest;
    return rows.toReversed();
  }

  async #newSteps(id: MessageId): Promise<CopyStep[]> {
    const trace = await this.home.journal.trace(id);
    const unseen = this.#watched.get(id)?.unseen ?? new UnseenSteps();
    const hasEnded = trace?.copies.every(({ state }) => state === 'settled' || state === 'gone') ?? true;
    this.#watched.set(id, { unseen, hasEnded });
    return trace ? unseen.of(trace, this.context.json || this.context.verbose) : [];
  }

  #showMessage(message: Message): void {
    const { context, home } = this;
    if (context.json) return context.say(JSON.stringify({ home: home.label, message }));
    const who = headline({ message }, context.workspace.now(), context.paint);
    const where = home.label === 'parley' ? '' : `  ${context.paint.dim(`in home ${home.label}`)}`;
    context.say(inWindow(context, `${who}${where}  ${gist(message.body)}`));
  }

  #showSteps(id: MessageId, steps: readonly CopyStep[]): void {
    const { context, home } = this;
    const { green, dim } = context.paint;
    for (const one of steps) {
      if (one.step === 'stored') continue;
      if (context.json) {
        context.say(JSON.stringify({ home: home.label, id, ...one }));
        continue;
      }
      context.say(
        inWindow(context, `  ${dim(shortId(id))}  @${one.mailbox}  ${green(one.step)}  ${dim(one.evidence)}`),
      );
    }
  }
}
