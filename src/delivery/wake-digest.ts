import { policyWords } from '../core/attention/attention.ts';
import type { Attention } from '../core/attention/attention.ts';
import { masked } from '../core/attention/secrets.ts';
import { lineForModel } from '../core/gate.ts';
import { allWaiting } from '../core/mail/deliver.ts';
import { receiptsOf } from '../core/mail/workspace.ts';
import type { Who, Workspace } from '../core/mail/workspace.ts';
import { byTime } from '../core/message.ts';
import type { Message } from '../core/message.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { post, sendKeyOf } from '../core/obligations/owners.ts';
import type { CopyRecord } from '../core/ports/journal.ts';
import { receipt } from '../core/receipt.ts';
import type { Receipt } from '../core/receipt.ts';
import { HOST_NAME } from '../core/signal.ts';
import { idInFence } from './fit.ts';
import { noteHoldReason } from './wake-budget.ts';

/** A digest has a line for this many messages, and counts the rest. */
const MAX_LINES = 20;
const MAX_EXCERPT_CHARACTERS = 80;

/** A digest is shown whole and needs no answer: Parley wrote it. The messages that it lists are answered one by one. */
const DIGEST: Attention = {
  directedness: 'to_me',
  policy: 'must_not_respond',
  injection: 'buffered',
  reason: 'digest',
};

/** A digest that nobody was shown yet, and the messages that it lists. */
interface OpenDigest {
  id: MessageId;
  listed: readonly MessageId[];
}

/**
 * Writes the digest of a mailbox: one message that lists the mail over the wake budget. It says who wrote, how many messages there are, their
 * first words, and how to read them. spec: delivery#wakes
 *
 * A digest is a message from Parley in the same mailbox, so hooks and the follower show and prove it like other mail. The messages that it
 * lists wait quietly, are owed as before, and are read or answered by their ids. While the digest waits, a newer one replaces it when more
 * mail comes, or when a listed message was read, answered or withdrawn.
 *
 * A receipt of each listed message names the first digest that lists it. A digest that was replaced names its replacement, so the listed
 * messages need no further receipt. A crash between writing a digest and withdrawing the old one leaves both, and loses no message.
 */
export class WakeDigests {
  /** By mailbox: the digest that waits or is being shown. Null: there is none. */
  readonly #open = new Map<AgentName, OpenDigest | null>();

  constructor(readonly workspace: Workspace) {}

  /** Adds these messages to the digest of their mailbox. A single message gets no digest: it is shown whole, with the next turn. */
  async add(who: Who, messages: readonly Message[], because: string): Promise<void> {
    // Search again: a digest that was being shown when this process started may wait by now.
    const before = (await this.#waiting(who)) ?? (await this.#search(who));
    const added = messages.map(({ id }) => id);
    const listed = [...new Set([...(before?.listed ?? []), ...added])];
    if (listed.length > 1) await this.#write(who, { before, listed, added, because });
    else for (const id of listed) await noteHoldReason(who, id, because, this.workspace.now());
  }

  /** Replaces a waiting digest if some of its messages do not wait any more. */
  async refresh(who: Who): Promise<void> {
    const before = await this.#waiting(who);
    if (!before) return;
    const waiting = new Set(await who.home.mailboxes.ids(who.name));
    const listed: MessageId[] = [];
    for (const id of before.listed) if (waiting.has(id) || (await isOpen(who, id))) listed.push(id);
    // A digest that lists nothing was left by a process that died before its first receipt. Its messages are still loud, so it is withdrawn.
    if (listed.length === before.listed.length && listed.length > 0) return;
    await this.#write(who, { before, listed, added: [], because: 'what is listed has changed' });
  }

  async #write(who: Who, { before, listed, added, because }: DigestChange): Promise<void> {
    const { home, name } = who;
    const by = { by: HOST_NAME, because: 'a newer digest replaced it' };
    if (listed.length === 0) return void (before && (await home.mailboxes.withdraw(before.id, by)));
    // A new key each time: the same messages may have been in a digest before.
    const key = sendKeyOf(`digest/${this.workspace.newId()}`);
    const body = textOf(await this.#linesFor(who, listed), listed.length);
    const { message } = await post(this.workspace, home, { to: `@${name}`, body, key }, name, DIGEST);
    for (const id of added) await this.#markListed(who, id, message.id, because);
    this.#open.set(name, { id: message.id, listed });
    if (before) await home.mailboxes.withdraw(before.id, { ...by, digest: message.id });
  }

  /** Makes a listed message quiet, so that no hook shows it. Its receipt is written first: if we die, it is still loud or known to be listed. */
  async #markListed({ name, home }: Who, id: MessageId, digest: MessageId, because: string): Promise<void> {
    const copy = await home.journal.copy(name, id);
    if (copy?.state !== 'stored') return;
    await home.journal.record(name, id, receipt('reconsidered', this.workspace.now(), { because, digest }));
    if (copy.attention.injection === 'digest') return;
    await home.journal.reconsider(name, id, { ...copy.attention, injection: 'digest' });
    await home.mailboxes.lower(name, id);
  }

  /** The lines for the first `MAX_LINES` messages, in order of time. */
  async #linesFor({ name, home }: Who, listed: readonly MessageId[]): Promise<string[]> {
    const found: { message: Message; copy: CopyRecord }[] = [];
    for (const id of listed.slice(0, MAX_LINES)) {
      const [message, copy] = [await home.journal.message(id), await home.journal.copy(name, id)];
      if (message && copy) found.push({ message, copy });
    }
    return found.toSorted((a, b) => byTime(a.message, b.message)).map(({ message, copy }) => lineOf(message, copy));
  }

  /** The digest of this mailbox that waits; null: none. An earlier follower may have written it. */
  async #waiting(who: Who): Promise<OpenDigest | null> {
    const known = this.#open.has(who.name) ? (this.#open.get(who.name) ?? null) : await this.#search(who);
    const state = known && (await who.home.journal.copy(who.name, known.id))?.state;
    // A digest that is being shown may wait again, so it is remembered.
    this.#open.set(who.name, state === 'stored' || state === 'held' ? known : null);
    return state === 'stored' ? known : null;
  }

  async #search(who: Who): Promise<OpenDigest | null> {
    let id: MessageId | null = null;
    for await (const one of allWaiting(who, 'loud')) if (one.attention.reason === 'digest') id = one.id;
    if (id === null) return null;
    const listed: MessageId[] = [];
    const newest = new Map<MessageId, MessageId>();
    for await (const one of allWaiting(who, 'digest'))
      if ((await digestOf(who, await receiptsOf(who, one.id), newest)) === id) listed.push(one.id);
    return { id, listed };
  }
}

/** A digest to write. `added`: the listed messages that have no receipt for a digest yet. */
interface DigestChange {
  before: OpenDigest | null;
  listed: readonly MessageId[];
  added: readonly MessageId[];
  because: string;
}

/** Whether a message waits, or may wait again. */
async function isOpen({ name, home }: Who, id: MessageId): Promise<boolean> {
  const state = (await home.journal.copy(name, id))?.state;
  return state === 'stored' || state === 'held';
}

/**
 * The newest digest that lists a message, by the receipts of its copy; null: none does. `newest` caches which digest has replaced which.
 */
export async function digestOf(
  { name, home }: Who,
  receipts: readonly Receipt[],
  newest = new Map<MessageId, MessageId>(),
): Promise<MessageId | null> {
  const noted = receipts.findLast(({ evidence }) => 'digest' in evidence)?.evidence['digest'];
  if (typeof noted !== 'string') return null;
  const replaced: MessageId[] = [];
  let id = noted as MessageId;
  for (;;) {
    const next = newest.get(id) ?? (await home.journal.copy(name, id))?.settledBy?.['digest'];
    if (typeof next !== 'string') break;
    replaced.push(id);
    id = next as MessageId;
  }
  for (const one of replaced) newest.set(one, id);
  return id;
}

function textOf(lines: readonly string[], count: number): string {
  const rest = count - MAX_LINES;
  return [
    `${count === 1 ? '1 message waits' : `${count} messages wait`} for you. You were woken often in the last hour, so you get this list. Read one: the tool read (id), or parley read <id>`,
    ...lines,
    ...(rest > 0 ? [`… and ${rest} more: the tool inbox, or parley inbox`] : []),
  ].join('\n');
}

function lineOf({ id, from, body, priority, parley }: Message, { attention }: CopyRecord): string {
  const facts = [
    parley?.intent && parley.intent !== 'none' ? parley.intent : '',
    priority === 'urgent' ? 'urgent' : '',
    attention.policy === 'must_not_respond' ? '' : policyWords(attention.policy),
  ].filter(Boolean);
  const words = lineForModel(masked(body), MAX_EXCERPT_CHARACTERS);
  return `- ${idInFence(id)} from @${lineForModel(from, 64)}${facts.map((fact) => ` · ${fact}`).join('')}: ${words}`;
}
