import type { Mail } from '../storage/ledger/ledger.ts';
import type { Who } from './workspace.ts';

/** A page has about this many characters, whatever the size of its messages. */
const PAGE_TEXT = 512 * 1024;
const FIRST_PAGE = 4;
const LONGEST_PAGE = 256;

/**
 * What waits for one reader, in order of arrival, page by page. The first page is small, because nobody knows how large the
 * messages are; the next are as long as their like allows. So a reader of ten thousand messages costs no more than one of ten.
 */
export class Shelf {
  #limit = FIRST_PAGE;
  #isRead = false;

  constructor(
    readonly who: Who,
    /** The last number that was given out. */
    public after = 0,
    /** Only what came back from a reader's hand, up to this number: whoever was told the rest is not told it again. */
    readonly returnedUpTo?: number,
  ) {}

  /** True if the last page was the end. More may arrive: `next` then gives that. */
  get isRead(): boolean {
    return this.#isRead;
  }

  async next(most = LONGEST_PAGE): Promise<Mail[]> {
    const limit = Math.min(this.#limit, most);
    const page = await this.#page(limit);
    this.after = page.at(-1)?.seq ?? this.after;
    this.#isRead = page.length < limit;
    if (page.length > 0) this.#limit = fitting(page);
    return page;
  }

  #page(limit: number): Promise<Mail[]> {
    const { ledger } = this.who.home;
    if (this.returnedUpTo === undefined) return ledger.waiting(this.who.name, this.after, limit);
    return ledger.returned(this.who.name, this.after, this.returnedUpTo, limit);
  }
}

function fitting(page: Mail[]): number {
  const text = page.reduce((sum, mail) => sum + mail.text.length, 0);
  return Math.min(LONGEST_PAGE, page.length * 16, Math.max(1, Math.floor(PAGE_TEXT / (text / page.length))));
}
