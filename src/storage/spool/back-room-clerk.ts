import { FIRST } from '../ledger/late.ts';
import type { CopyNumber, Unfiled } from '../ledger/late.ts';
import { openSqliteLedger } from '../ledger/sqlite.ts';
import type { SqliteLedger } from '../ledger/sqlite.ts';
import { Looker } from './back-room-look.ts';
import { troubleOf } from './back-room-talk.ts';
import type { Errand, Report } from './back-room-talk.ts';
import { LateFiles, publishDrafted } from './late-files.ts';
import { MaildirFiles } from './maildir-files.ts';
import { idsIn } from './maildir-places.ts';

/** How many files are written between two words with the counter: a look into a mailbox waits no longer than this takes. */
const BITE = 64;
/** New mail waits so long for more, so that its files are written in one go. */
const LINGER_MS = 10;
/** While mail comes in, the counter goes first: disk and processor are its. But no longer than this, and not for more copies. */
const GIVE_WAY_MS = 1000;
const GIVE_WAY = 5000;
/** How often a clerk looks around by itself. Half of what is promised for mail of other programs. */
const LOOK_MS = 500;
/** What could not be written is tried again after this. */
const TROUBLE_MS = 1000;
/** Does the paperwork of one home: late files, looks into folders, a checkpoint of the log when nothing else is to do. */
export class Clerk {
  readonly #ledger: SqliteLedger;
  readonly #late: LateFiles;
  readonly #looker: Looker;
  readonly #timer: ReturnType<typeof setInterval>;
  #mayFile = false;
  #turn = 0;
  #hurry = false;
  #filing: Promise<void> | null = null;
  #hearMine: (mine: boolean[] | null) => void = () => {};
  #wake: () => void = () => {};
  #closed = false;

  constructor(
    readonly root: string,
    readonly report: (what: Report) => void,
  ) {
    const files = new MaildirFiles(root);
    this.#late = new LateFiles(files);
    this.#ledger = openSqliteLedger({ path: `${root}/ledger.db`, durability: 'normal' });
    this.#looker = new Looker(files, this.#ledger);
    this.#timer = setInterval(() => {
      this.#lookAround().catch((error: unknown) => this.#trouble(error));
    }, LOOK_MS);
  }

  take(order: Errand): void {
    this.#take(order).catch((error: unknown) => {
      if ('ticket' in order) this.report({ say: 'failed', ticket: order.ticket, trouble: troubleOf(error) });
      else this.#trouble(error);
    });
  }

  async #take(order: Errand): Promise<void> {
    switch (order.say) {
      case 'file':
        this.#turn = order.turn;
        this.#mayFile = order.mayFile;
        this.#hurry ||= order.hurry;
        if (this.#hurry) this.#wake();
        this.#file();
        break;
      case 'mine':
        this.#hearMine(order.mine);
        break;
      case 'look': {
        const found = await this.#looker.look(order.mailbox);
        this.report({ say: 'looked', ticket: order.ticket, mailbox: order.mailbox, found });
        break;
      }
      case 'list':
        this.report({ say: 'listed', ticket: order.ticket, ids: idsIn(order.folder) });
        break;
      case 'watch':
        await this.#looker.watch(order.mailbox, order.since);
        await this.#lookInto(order.mailbox);
        break;
      case 'unwatch':
        this.#looker.unwatch(order.mailbox);
        break;
      case 'put back':
        this.#looker.expected(order.mailbox, order.ids);
        break;
      case 'close':
        await this.#close();
    }
  }

  /** Starts filing unless it is under way; whoever is at it looks again before it ends. */
  #file(): void {
    if (this.#filing || !this.#mayFile || this.#closed) return;
    this.#filing = this.#fileAll()
      .catch((error: unknown) => {
        this.#trouble(error);
        this.report({ say: 'idle', turn: this.#turn, left: 1 });
      })
      .finally(() => {
        this.#filing = null;
      });
  }

  async #fileAll(): Promise<void> {
    await publishDrafted(this.#late, this.#ledger, (error) => this.#trouble(error));
    let turn = this.#turn;
    let after: CopyNumber = FIRST;
    let progress = false;
    let isFull = false;
    let inHand: Promise<void> = Promise.resolve();
    while (!this.#closed) {
      await this.#mayGoOn(isFull);
      if (this.#closed) break;
      const bite = await this.#ledger.unfiled(after, BITE);
      isFull = bite.length === BITE;
      const drafted = this.#late.draft(bite, (error) => this.#trouble(error));
      // One bite ahead: while the counter asks the ledger, the next drafts are written.
      await inHand;
      if (drafted.length > 0) {
        progress = true;
        inHand = this.#publish(drafted);
      }
      const last = bite.at(-1);
      if (last) after = last;
      else if (!progress) break;
      else {
        // From the beginning: some were put back meanwhile, and some could not be written.
        await inHand;
        turn = this.#turn;
        after = FIRST;
        progress = false;
      }
    }
    this.#hurry = false;
    this.#ledger.checkpoint();
    const left = await this.#ledger.unfiledCount(1);
    this.report({ say: 'idle', turn, left });
    if (left > 0 && !this.#closed) setTimeout(() => this.#file(), TROUBLE_MS);
  }

  async #publish(drafted: Unfiled[]): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<boolean[] | null>();
    this.#hearMine = resolve;
    this.report({ say: 'drafted', copies: numbersOf(drafted) });
    const mine = await promise;
    if (!mine) return;
    const published = this.#late.publish(drafted, mine, (error) => this.#trouble(error));
    for (const { mailbox, id } of published) this.#looker.expected(mailbox, [id]);
    this.report({ say: 'filed', copies: numbersOf(published), handled: drafted.length });
  }

  /** Between two bites others are heard. */
  async #mayGoOn(isFull: boolean): Promise<void> {
    if (!isFull) await this.#giveWay();
    await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Waits until nothing came for a moment, too long ago something did, or too many files are missing. */
  async #giveWay(): Promise<void> {
    const end = performance.now() + GIVE_WAY_MS;
    for (let newest = await this.#ledger.newest(), before = -1; newest !== before && !this.#hurry && !this.#closed;) {
      if (performance.now() > end || (await this.#ledger.unfiledCount(GIVE_WAY)) >= GIVE_WAY) return;
      before = newest;
      await this.#linger();
      newest = await this.#ledger.newest();
    }
  }

  async #linger(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LINGER_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #lookAround(): Promise<void> {
    for (const mailbox of this.#looker.due()) {
      await this.#lookInto(mailbox).catch((error: unknown) => this.#trouble(error));
    }
    if (this.#mayFile && (await this.#ledger.unfiledCount(1)) > 0) this.#file();
  }

  async #lookInto(mailbox: Parameters<Looker['look']>[0]): Promise<void> {
    const found = await this.#looker.look(mailbox);
    if (found.arrived.length + found.missing.length + found.strangers.length === 0) return;
    this.report({ say: 'looked', ticket: null, mailbox, found });
  }

  #trouble(error: unknown): void {
    if (!this.#closed) this.report({ say: 'trouble', trouble: troubleOf(error) });
  }

  async #close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#wake();
    this.#hearMine(null);
    try {
      await this.#filing;
      await this.#ledger.close();
    } finally {
      // Whatever came of it: the counter waits.
      this.report({ say: 'closed' });
    }
  }
}

function numbersOf(copies: Unfiled[]): CopyNumber[] {
  return copies.map(({ seq, mailbox }) => ({ seq, mailbox }));
}
