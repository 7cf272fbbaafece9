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

/** How long a reader may hold a copy without renewing its claim. After that it counts as dead. */
export const LEASE_MS = 30_000;

export interface Selection {
  /** The reader's context. Scoped mail is selected only if its scope matches; `any` ignores scopes. */
  match?: string | undefined;
  any?: boolean;
  /** Leave out messages that wait quietly. */
  loudOnly?: boolean;
  urgentOnly?: boolean;
}

/** A copy that a reader holds, with its attention. `attempt` above 0: a delivery was begun before. */
export type Delivered = Claim['copies'][number];

/** The messages that wait for this reader, oldest first. Takes nothing. Files of other programs get their attention here. */
export async function waiting(who: Who, selection: Selection): Promise<WaitingMessage[]> {
  await who.home.mailboxes.adopt(who.name);
  const all = await who.home.mailboxes.peek(who.name);
  return all.filter((one) => isSelected(one, selection));
}

/** Does the reader's selection include this message? */
export function isSelected({ message, quiet }: WaitingMessage, selection: Selection): boolean {
  if (selection.loudOnly && quiet) return false;
  if (selection.urgentOnly && message.priority !== 'urgent') return false;
  return selection.any || scopeMatches(message.scope, selection.match);
}

/** Finds the waiting message whose id begins with `prefix`. Throws a Refusal if there is none, or more than one. */
export async function findWaiting(who: Who, prefix: string): Promise<MessageId> {
  const ids = (await who.home.mailboxes.ids(who.name)).filter((id) => id.startsWith(prefix));
  if (ids.length === 0 && prefix !== '') await refuseHeld(who, prefix);
  return onlyOne(
    prefix,
    ids.map((id) => ({ id })),
  ).id;
}

/** Refuses a message that does not wait for this reader: it waits for another one, was offered to a session, or is held. */
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
 * Step 4 of 5. Claims these messages for the reader, lets `render` make the text, notes `offered`, and shows the text at the last moment at
 * which a failure can still be undone. If the text cannot be shown, all copies wait again. A caller that has already read a message passes
 * it instead of its id, so that it is not read a second time.
 *
 * A copy is waiting → held by us → settled. If this process dies while it holds a copy, the copy waits again at once. If it dies after the
 * copy was shown and before it was settled, the copy is delivered once more, marked as a redelivery. Nobody else can get it in between.
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
  // A slow output must not block all other writers: show first, then settle.
  if (slow) await showOrRelease(who, claim, held, show);
  const settled = await mailboxes.settle(claim, held, settlement, slow ? 'shown' : show);
  // The text was shown, so the caller must not be told that nothing was delivered.
  if (!settled && slow) {
    throw new Refusal(
      'already_claimed',
      'another session claimed these messages while they were shown; they may be shown twice',
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

/** About how many characters of text one page has. */
const PAGE_TEXT = 512 * 1024;
const FIRST_PAGE = 4;
const LONGEST_PAGE = 256;

/**
 * Reads the messages that wait for one reader page by page, in order of arrival. The first page is small, because the size of the messages
 * is unknown. The length of the next page follows from the average size on the page before. So a page costs the same, however many wait.
 */
export class WaitingPages {
  #limit = FIRST_PAGE;
  #isRead = false;

  constructor(
    readonly who: Who,
    /** The sequence number of the last message that was read. */
    public after = 0,
    /** Read only messages that came back from a reader, up to this sequence number. The caller has already read the others. */
    readonly returnedUpTo?: number,
  ) {}

  /** True if the last page was the end. `next` then returns only messages that have arrived since. */
  get isRead(): boolean {
    return this.#isRead;
  }

  async next(most = LONGEST_PAGE): Promise<Mail[]> {
    const limit = Math.min(this.#limit, most);
    const page = await this.#page(limit);
    this.after = page.at(-1)?.seq ?? this.after;
    this.#isRead = page.length < limit;
    if (page.length > 0) this.#limit = nextLimit(page);
    return page;
  }

  #page(limit: number): Promise<Mail[]> {
    const { journal } = this.who.home;
    if (this.returnedUpTo === undefined) return journal.waitingCopies(this.who.name, this.after, limit);
    return journal.returned(this.who.name, this.after, this.returnedUpTo, limit);
  }
}

function nextLimit(page: Mail[]): number {
  const text = page.reduce((sum, mail) => sum + mail.text.length, 0);
  return Math.min(LONGEST_PAGE, page.length * 16, Math.max(1, Math.floor(PAGE_TEXT / (text / page.length))));
}

/**
 * Steps 4 and 5 together, for a caller that shows the message itself: takes one message and ends it as acknowledged. Of many racing callers
 * exactly one gets it. The others get null, as does a caller that names a message that does not wait.
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
/** More messages than this never fit into one text. */
const ENOUGH = 128;

/** All waiting copies of this kind, in order of arrival. Reads page by page, however much other mail waits. */
export async function* allWaiting({ name, home }: Who, kind: WaitingKind): AsyncGenerator<WaitingCopy> {
  for (let after = 0, isRead = false; !isRead;) {
    const page = await home.journal.waitingCopies(name, after, PAGE, kind);
    yield* page;
    after = page.at(-1)?.seq ?? after;
    isRead = page.length < PAGE;
  }
}

/** The messages that a guard keeps for this reader's next own turn in this context, oldest first. Takes nothing. spec: c2a#loops */
export async function laterMail(who: Who, match: string): Promise<Message[]> {
  const found: Message[] = [];
  for await (const { text } of allWaiting(who, 'kept')) {
    const message = readMessage(JSON.parse(text));
    if (message && scopeMatches(message.scope, match)) found.push(message);
    if (found.length === ENOUGH) break;
  }
  return found;
}
