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
import { noteHindrance } from './wake-budget.ts';

/** A digest has a line for this many messages, and counts the rest. */
const LINES = 20;
const LONGEST_WORDS = 80;

/** A digest is shown whole, and is not to be answered: Parley wrote it. What it lists is answered one by one. */
const DIGEST: Attention = {
  directedness: 'to_me',
  policy: 'must_not_respond',
  injection: 'buffered',
  reason: 'digest',
};

/** A digest that waits, and the messages in it. */
interface OpenDigest {
  id: MessageId;
  listed: readonly MessageId[];
}

/**
 * Mail over the wake budget of its reader, as one digest: who, how many, first words, how to get it. spec: delivery#wakes
 *
 * A digest is a message of Parley's in the same mailbox, so hooks and the follower show and prove it like any other. What it lists waits
 * quietly, is owed as before, and is read or answered by its id. While the digest waits, a newer one replaces it when mail comes, or when
 * something in it was read, answered or withdrawn.
 *
 * A message is noted with the digest that lists it first. A digest that was replaced names the one that replaced it, so what it lists need
 * not be noted again, however much that is. A crash between the two leaves both, and loses no message.
 */
export class WakeDigests {
  /** By mailbox. Null: none waits, as far as we know. */
  readonly #open = new Map<AgentName, OpenDigest | null>();

  constructor(readonly workspace: Workspace) {}

  /** Puts these into the digest of their mailbox. One message alone is shown whole instead, with the next turn. */
  async add(who: Who, messages: readonly Message[], because: string): Promise<void> {
    // One that was being shown when this process started may wait again.
    const before = (await this.#waiting(who)) ?? (await this.#found(who));
    const added = messages.map(({ id }) => id);
    const listed = [...new Set([...(before?.listed ?? []), ...added])];
    if (listed.length > 1) await this.#write(who, { before, listed, added, because });
    else for (const id of listed) await noteHindrance(who, id, because, this.workspace.now());
  }

  /** Leaves out of a waiting digest what does not wait any more. */
  async refresh(who: Who): Promise<void> {
    const before = await this.#waiting(who);
    if (!before) return;
    const waiting = new Set(await who.home.mailboxes.ids(who.name));
    const listed: MessageId[] = [];
    for (const id of before.listed) if (waiting.has(id) || (await isOpen(who, id))) listed.push(id);
    // One that lists nothing was left by a process that died before its first note: those messages are as loud as before.
    if (listed.length === before.listed.length && listed.length > 0) return;
    await this.#write(who, { before, listed, added: [], because: 'what is listed has changed' });
  }

  async #write(who: Who, { before, listed, added, because }: DigestChange): Promise<void> {
    const { home, name } = who;
    const by = { by: HOST_NAME, because: 'a newer digest replaced it' };
    if (listed.length === 0) return void (before && (await home.mailboxes.withdraw(before.id, by)));
    // A key of its own: what it lists may have been in a digest before, and been claimed since.
    const key = sendKeyOf(`digest/${this.workspace.newId()}`);
    const body = textOf(await this.#linesFor(who, listed), listed.length);
    const { message } = await post(this.workspace, home, { to: `@${name}`, body, key }, name, DIGEST);
    for (const id of added) await this.#list(who, id, message.id, because);
    this.#open.set(name, { id: message.id, listed });
    if (before) await home.mailboxes.withdraw(before.id, { ...by, digest: message.id });
  }

  /** Lets a message wait where no hook looks: the digest has it. Noted first: if we die, it is still loud or is known to be listed. */
  async #list({ name, home }: Who, id: MessageId, digest: MessageId, because: string): Promise<void> {
    const copy = await home.journal.copy(name, id);
    if (copy?.state !== 'stored') return;
    await home.journal.record(name, id, receipt('reconsidered', this.workspace.now(), { because, digest }));
    if (copy.attention.injection === 'digest') return;
    await home.journal.reconsider(name, id, { ...copy.attention, injection: 'digest' });
    await home.mailboxes.lower(name, id);
  }

  /** The first of these, by their time. */
  async #linesFor({ name, home }: Who, listed: readonly MessageId[]): Promise<string[]> {
    const found: { message: Message; copy: CopyRecord }[] = [];
    for (const id of listed.slice(0, LINES)) {
      const [message, copy] = [await home.journal.message(id), await home.journal.copy(name, id)];
      if (message && copy) found.push({ message, copy });
    }
    return found.toSorted((a, b) => byTime(a.message, b.message)).map(({ message, copy }) => lineOf(message, copy));
  }

  /** The digest of this mailbox that nobody was shown yet. A process before this one may have written it. */
  async #waiting(who: Who): Promise<OpenDigest | null> {
    const known = this.#open.has(who.name) ? (this.#open.get(who.name) ?? null) : await this.#found(who);
    const state = known && (await who.home.journal.copy(who.name, known.id))?.state;
    // One that is being shown may wait again.
    this.#open.set(who.name, state === 'stored' || state === 'held' ? known : null);
    return state === 'stored' ? known : null;
  }

  async #found(who: Who): Promise<OpenDigest | null> {
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

/** A digest to write: what it lists, and what of that is not noted yet. */
interface DigestChange {
  before: OpenDigest | null;
  listed: readonly MessageId[];
  added: readonly MessageId[];
  because: string;
}

/** Whether it waits, or may wait again. */
async function isOpen({ name, home }: Who, id: MessageId): Promise<boolean> {
  const state = (await home.journal.copy(name, id))?.state;
  return state === 'stored' || state === 'held';
}

/**
 * The last digest that lists a message, by the receipts of its copy; null: none does. `newest`: which digest has replaced others, as far as
 * it was looked up.
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
  const rest = count - LINES;
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
  const words = lineForModel(masked(body), LONGEST_WORDS);
  return `- ${idInFence(id)} from @${lineForModel(from, 64)}${facts.map((fact) => ` · ${fact}`).join('')}: ${words}`;
}
