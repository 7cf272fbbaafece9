import { receiptsOf } from '../../core/mail/workspace.ts';
import { ChannelName } from '../../core/names.ts';
import type { AgentName, MessageId } from '../../core/names.ts';
import type { Receipt } from '../../core/receipt.ts';
import type { CopyRecord } from '../../core/ports/journal.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { aGroup, keyOf, placeOf } from './item.ts';
import type { Item } from './item.ts';
import type { HostSession } from './session.ts';
import type { Bind } from './shapes.ts';
import { Refusal } from '../../core/refusal.ts';
import type { SessionRecord } from '../../core/ports/obligations.ts';
import { disown, giveRole, own, takeRole } from '../../core/obligations/owners.ts';
import type { HostDeps } from './context.ts';

/** How often a host offered a copy, by its receipts. */
export async function attemptsOf({ who, message }: Pick<Item, 'who' | 'message'>): Promise<number> {
  return offersIn(await receiptsOf(who, message.id)).length;
}

/**
 * Finds the copies that a session held before the host restarted. Copies that its harness had accepted are open. Copies that it had not
 * accepted, and those to be tried again after a failed turn, are sent again as before. A return that was counted and never offered is
 * sent as a knock. Copies that were claimed and never offered wait again.
 */
export async function restoreHeld(session: HostSession): Promise<void> {
  const unaccepted: { item: Item; event: string }[] = [];
  for (const who of session.whos) {
    for (const copy of await who.home.journal.heldBy(who.name, session.owner)) {
      const found = await foundIn(session, who, copy);
      if (!found) continue;
      if (!found.isAccepted) unaccepted.push(found);
      else session.open.set(keyOf(found.item), found.item);
      if (found.isAccepted && found.returns > 0)
        session.queue.putBack(aGroup({ ...found.item, mode: 'notify' }, { returns: found.returns }));
    }
  }
  for (const together of Map.groupBy(unaccepted, ({ item, event }) => `${event}:${item.who.name}`).values()) {
    const [first, ...others] = together.map(({ item }) => item).toSorted((a, b) => a.seq - b.seq);
    if (first) session.queue.putBack(aGroup(first, { items: [first, ...others] }));
  }
}

/** Releases the copies that a session holds in a mailbox that it no longer reads. They wait again for other readers. */
export async function giveBack({ owner }: HostSession, { name, home }: Who): Promise<void> {
  const held = (await home.journal.heldBy(name, owner)).map(({ id }) => id);
  const because = 'its session reads other mailboxes now';
  if (held.length > 0) await home.mailboxes.release({ mailbox: name, owner }, held, { because });
}

interface Found {
  item: Item;
  /** The event in whose turn the copy was shown: its own, or the one it was merged into. */
  event: string;
  isAccepted: boolean;
  /** The number of the return that was never offered. 0: none was missed. */
  returns: number;
}

async function foundIn(session: HostSession, who: Who, copy: CopyRecord): Promise<Found | null> {
  const message = await who.home.journal.message(copy.id);
  const receipts = await receiptsOf(who, copy.id);
  const offers = offersIn(receipts);
  const { seq, merged } = offers.at(-1)?.evidence ?? {};
  if (!message || typeof seq !== 'number') {
    await who.home.mailboxes.release({ mailbox: who.name, owner: session.owner }, [copy.id], {
      because: 'never offered',
    });
    return null;
  }
  const item: Item = {
    who,
    message,
    attention: copy.attention,
    seq,
    author: await session.context.people.person(message.from),
    conversation: placeOf(message, who),
    mode: copy.attention.injection,
    attempts: offers.length,
    held: true,
  };
  return {
    item,
    event: typeof merged === 'string' ? merged : message.id,
    isAccepted: wasAccepted(receipts, session.id),
    returns: await missedReturn(who, copy.id, receipts),
  };
}

/** Accepted by this session, and not given back by a failed turn since. */
function wasAccepted(receipts: readonly Receipt[], session: string): boolean {
  const own = receipts.filter(({ evidence }) => evidence['session'] === session);
  const accepted = own.findLastIndex(({ step }) => step === 'accepted' || step === 'knocked');
  return accepted > own.findLastIndex(({ step }) => step === 'released');
}

/** The number of the last return, if the host ended before it was offered. */
async function missedReturn({ name, home }: Who, id: MessageId, receipts: readonly Receipt[]): Promise<number> {
  const obligation = await home.journal.obligation(name, id);
  if (!obligation || obligation.ended || obligation.state !== 'open') return 0;
  const known = receipts.filter(({ step }) => step === 'offered' || step === 'reconsidered');
  const offered = Math.max(0, ...known.map(({ evidence }) => Number(evidence['returns'] ?? 0)));
  return obligation.returns > offered ? obligation.returns : 0;
}

function offersIn(receipts: readonly Receipt[]): Receipt[] {
  return receipts.filter(({ step, evidence }) => step === 'offered' && evidence['way'] === 'host');
}

/** A bound session: its record, the mailboxes that it reads, and warnings for its harness. */
export interface BoundSession {
  record: SessionRecord;
  whos: Who[];
  token: string;
  warnings: string[];
  /** Its record before this `bind`. */
  before: SessionRecord | null;
}

/** Makes a session, or continues an earlier one if the request has that one's token. spec: host#bind */
export async function bindSession(deps: HostDeps, request: Bind): Promise<BoundSession> {
  const { journal } = deps.home;
  const earlier = await journal.session(request.sessionId);
  if (earlier && (request.token === undefined || deps.hash(request.token) !== earlier.tokenHash)) {
    throw new Refusal(
      'not_yours',
      `session ${request.sessionId} is bound; give its token to take it up, or use another id`,
    );
  }
  // A harness may choose the token of a new session: then it can continue the session even if our answer is lost.
  const token = request.token ?? deps.newToken();
  const record: SessionRecord = {
    id: request.sessionId,
    tokenHash: deps.hash(token),
    identities: request.identities,
    roles: request.roles,
    streams: request.streams,
    threads: request.threads,
    seen: deps.now(),
  };
  const warnings: string[] = [];
  const whos = await known(deps, request.identities, warnings);
  await journal.saveSession(record);
  const former = earlier && (await holderOf(deps, earlier));
  const isMoved = former?.name !== whos[0]?.name;
  if (earlier && isMoved) await appoint(former, namingNothing(earlier), earlier, warnings);
  await appoint(whos[0], record, isMoved ? null : earlier, warnings);
  return { record, whos, token, warnings, before: earlier };
}

/** Deletes a session that stayed away, and gives up its roles, channels and threads. */
export async function dropSession(deps: HostDeps, record: SessionRecord): Promise<void> {
  await appoint(await holderOf(deps, record), namingNothing(record), record, []);
  await deps.home.journal.dropSession(record.id);
  deps.log('host.session_dropped', { session: record.id });
}

/** The agent that holds a session's roles, channels and threads: the first of its identities that exists. */
async function holderOf({ home }: HostDeps, { identities }: SessionRecord): Promise<Who | null> {
  for (const name of identities) if (await home.directory.get(name)) return { name, home };
  return null;
}

function namingNothing(record: SessionRecord): SessionRecord {
  return { ...record, roles: [], streams: [], threads: [] };
}

/** The identities that exist; warns about the others. Refuses a person's mailbox: no model may answer for a person. */
async function known(deps: HostDeps, identities: readonly AgentName[], warnings: string[]): Promise<Who[]> {
  const whos: Who[] = [];
  for (const name of new Set(identities)) {
    const record = await deps.home.directory.get(name);
    if (record?.parley?.kind === 'human') {
      throw new Refusal(
        'not_yours',
        `@${name} is a person, and sessions are for agents; bind one to an agent's mailbox`,
      );
    }
    if (!record) warnings.push(`no agent is called ${name}; make it with \`parley init ${name}\`, then bind again`);
    else whos.push({ name, home: deps.home });
    if (record) await deps.home.directory.seen(name);
  }
  if (whos.length === 0) {
    warnings.push('this session is bound to no mailbox: it gets no mail; bind it to an agent that exists');
  }
  return whos;
}

/** Gives roles, channels and threads to the first identity, and takes away those that the session no longer names. */
async function appoint(
  who: Who | null | undefined,
  now: SessionRecord,
  before: SessionRecord | null,
  warnings: string[],
): Promise<void> {
  if (!who) return;
  const attempt = async (act: () => Promise<unknown>): Promise<void> => {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      warnings.push(error.message);
    }
  };
  for (const role of now.roles) await attempt(() => giveRole(who, role));
  for (const what of [...now.streams, ...now.threads]) await attempt(() => own(who, what));
  for (const stream of now.streams) await attempt(() => listen(who, stream));
  const kept = new Set<string>([...now.roles, ...now.streams, ...now.threads]);
  for (const role of before?.roles ?? []) if (!kept.has(role)) await attempt(() => takeRole(who, role));
  for (const what of [...(before?.streams ?? []), ...(before?.threads ?? [])]) {
    if (!kept.has(what)) await attempt(() => disown(who, what));
  }
  for (const stream of before?.streams ?? []) if (!kept.has(stream)) await attempt(() => stopListening(who, stream));
}

/** Subscribes the owner of a channel to it, and remembers that, so that it can be undone. */
async function listen({ name, home }: Who, stream: string): Promise<void> {
  const channel = ChannelName.parse(stream);
  const record = await home.directory.get(name);
  if (!record?.parley?.owns?.includes(channel) || record.subscriptions.includes(channel)) return;
  await home.directory.amend(name, ({ joined = [] }) => ({ joined: [...new Set([...joined, channel])] }));
  await home.directory.subscribe(name, channel);
}

/** Leaves a channel, unless the agent had joined it by itself. */
async function stopListening({ name, home }: Who, stream: string): Promise<void> {
  const channel = ChannelName.parse(stream);
  if (!(await home.directory.get(name))?.parley?.joined?.includes(channel)) return;
  await home.directory.unsubscribe(name, channel);
  await home.directory.amend(name, ({ joined = [] }) => {
    const rest = joined.filter((one) => one !== channel);
    return { joined: rest.length > 0 ? rest : undefined };
  });
}
