import type { Message } from '../message.ts';
import { shortId, scopeMatches } from '../names.ts';
import type { MessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { Receipt, Evidence } from '../receipt.ts';
import { PartlyShown } from '../disk.ts';
import type { Settlement, Mail, WaitingCopy, WaitingKind } from '../ports/journal.ts';
import type { Claim, WaitingMessage } from '../ports/mailboxes.ts';
import { onlyOne } from './workspace.ts';
import type { Who } from './workspace.ts';
import { byTime, readMessage } from '../message.ts';

/** How long a reader at work may hold a copy before it is taken for dead. */
export const LEASE_MS = 30_000;

export interface Selection {
  /** The reader's context. Scoped mail is taken only where it matches; `any` ignores scopes. */
  match?: string | undefined;
  any?: boolean;
  /** Leave out what waits quietly. */
  loudOnly?: boolean;
  urgentOnly?: boolean;
}

/** A copy held by a reader, with the decision how it should be seen. `attempt` above 0 means that it was begun before. */
export type Delivered = Claim['copies'][number];

/** What waits for this reader, oldest first. Takes nothing; mail of other programs gets its decision here. */
export async function waiting(who: Who, selection: Selection): Promise<WaitingMessage[]> {
  await who.home.mailboxes.adopt(who.name);
  const all = await who.home.mailboxes.peek(who.name);
  return all.filter((one) => isSelected(one, selection));
}

/** Is this one of those that the reader asked for? */
export function isSelected({ message, quiet }: WaitingMessage, selection: Selection): boolean {
  if (selection.loudOnly && quiet) return false;
  if (selection.urgentOnly && message.priority !== 'urgent') return false;
  return selection.any || scopeMatches(message.scope, selection.match);
}

/** The waiting message whose id begins so. */
export async function findWaiting(who: Who, prefix: string): Promise<MessageId> {
  const ids = (await who.home.mailboxes.ids(who.name)).filter((id) => id.startsWith(prefix));
  if (ids.length === 0 && prefix !== '') await refuseHeld(who, prefix);
  return onlyOne(
    prefix,
    ids.map((id) => ({ id })),
  ).id;
}

/** Says where a message is that waits for nobody else: a session was shown it, or a reader has it. */
async function refuseHeld({ name, home }: Who, prefix: string): Promise<void> {
  for (const id of await home.journal.idsLike(prefix)) {
    const copies = (await home.journal.trace(id))?.copies ?? [];
    const copy = copies.find(({ mailbox }) => mailbox === name);
    const other = copies.find(({ state }) => state === 'stored');
    if (!copy && other)
      throw new Refusal(
        'not_yours',
        `message ${shortId(id)} waits for @${other.mailbox}, not for @${name}; act as its reader: --as ${other.mailbox}`,
      );
    if (copy?.state !== 'held' || copy.owner === null) continue;
    const short = shortId(id);
    const isOffered = copy.bearer && copy.receipts.at(-1)?.step === 'offered';
    throw new Refusal(
      'already_claimed',
      isOffered
        ? `message ${short} is offered to a session, which settles it or lets it wait again; answer it with \`parley reply ${short}\` or give it back with \`parley release ${short}\``
        : `message ${short} is held by another reader; see \`parley trace ${short}\``,
    );
  }
}

/**
 * Step 4 of 5. Claims these messages for the reader, lets `render` make what the reader will see, and shows it at the
 * last moment at which a failure can still be undone. If it cannot be shown, everything waits again. `offered` is noted first.
 * Who has just read a message where it waits gives it instead of its id, and it is not read a second time.
 *
 * A copy is waiting → held by us → settled. If we die while it is held it waits again at once; if we die after it was shown and
 * before it was settled, it comes once more, marked as a redelivery. Nobody else can get it in between.
 */
export async function deliver(
  who: Who,
  mail: readonly (MessageId | Message)[],
  settlement: Settlement,
  render: (delivered: Delivered[]) => { show: () => void; slow: boolean },
  offered?: Receipt,
): Promise<Delivered[]> {
  const { mailboxes } = who.home;
  const ids = mail.map((one) => (typeof one === 'string' ? one : one.id));
  const read = new Map(mail.filter((one) => typeof one !== 'string').map((message) => [message.id, message]));
  const claim = await mailboxes.claim(who.name, ids, { ms: LEASE_MS }, read);
  if (claim.copies.length === 0) return [];
  const delivered = claim.copies.toSorted((a, b) => byTime(a.message, b.message));
  const held = delivered.map(({ message }) => message.id);
  const { show, slow } = render(delivered);
  if (offered) for (const id of held) await who.home.journal.record(who.name, id, offered);
  // A slow reader must not hold up everybody else's writes: show first, then settle.
  if (slow) await showOrRelease(who, claim, held, show);
  const settled = await mailboxes.settle(claim, held, settlement, slow ? 'shown' : show);
  // It was shown: to answer that nothing was taken would be untrue.
  if (!settled && slow) {
    throw new Refusal(
      'already_claimed',
      'what was shown was meanwhile claimed by another session; it may be shown twice',
    );
  }
  return settled ? delivered : [];
}

async function showOrRelease(who: Who, claim: Claim, ids: MessageId[], show: () => void): Promise<void> {
  try {
    show();
  } catch (error) {
    await who.home.mailboxes.release(
      claim,
      ids,
      { because: 'it could not be shown' },
      undefined,
      error instanceof PartlyShown,
    );
    throw error;
  }
}

/** A page has about this many characters, whatever the size of its messages. */
const PAGE_TEXT = 512 * 1024;
const FIRST_PAGE = 4;
const LONGEST_PAGE = 256;

/**
 * What waits for one reader, in order of arrival, page by page. The first page is small, because nobody knows how large the
 * messages are; the next are as long as their like allows. So a reader of ten thousand messages costs no more than one of ten.
 */
export class WaitingPages {
  #limit = FIRST_PAGE;
  #isRead = false;

  constructor(
    readonly who: Who,
    /** The last number that was given out. */
    public after = 0,
    /** Only what came back from a reader, up to this number: anyone who was told the rest is not told it again. */
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
    const { journal } = this.who.home;
    if (this.returnedUpTo === undefined) return journal.waitingCopies(this.who.name, this.after, limit);
    return journal.returned(this.who.name, this.after, this.returnedUpTo, limit);
  }
}

function fitting(page: Mail[]): number {
  const text = page.reduce((sum, mail) => sum + mail.text.length, 0);
  return Math.min(LONGEST_PAGE, page.length * 16, Math.max(1, Math.floor(PAGE_TEXT / (text / page.length))));
}

/**
 * Step 4 and 5 in one, for a reader that is shown nothing here: takes one message and ends it as acknowledged. Of many racing
 * callers exactly one gets it; the others, and anyone who asks for what is not there, get null.
 */
export async function takeOne(who: Who, id: MessageId, by: Evidence, keep = false): Promise<Message | null> {
  const { mailboxes } = who.home;
  const claim = await mailboxes.claim(who.name, [id], { ms: LEASE_MS });
  const [copy] = claim.copies;
  if (!copy) return null;
  const settled = await mailboxes.settle(claim, [id], { disposition: 'acknowledged', by, keep });
  return settled ? copy.message : null;
}

const PAGE = 128;
/** More than this never fits into one text. */
const ENOUGH = 128;

/** What waits for this reader, of this kind, in order of arrival. It is read page by page, also where other mail waits before it. */
export async function* allWaiting({ name, home }: Who, kind: WaitingKind): AsyncGenerator<WaitingCopy> {
  for (let after = 0, isRead = false; !isRead;) {
    const page = await home.journal.waitingCopies(name, after, PAGE, kind);
    yield* page;
    after = page.at(-1)?.seq ?? after;
    isRead = page.length < PAGE;
  }
}

/** What a guard keeps for this reader's next own turn in this context, oldest first. Takes nothing. spec: c2a#loops */
export async function laterMail(who: Who, match: string): Promise<Message[]> {
  const found: Message[] = [];
  for await (const { text } of allWaiting(who, 'kept')) {
    const message = readMessage(JSON.parse(text));
    if (message && scopeMatches(message.scope, match)) found.push(message);
    if (found.length === ENOUGH) break;
  }
  return found;
}
