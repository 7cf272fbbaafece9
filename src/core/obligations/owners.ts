import type { AgentName, MessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import { HOST_NAME } from '../signal.ts';
import type { AgentRecord } from '../ports/directory.ts';
import type { Home, Who, Workspace } from '../mail/workspace.ts';
import type { Attention } from '../attention/attention.ts';
import { composeMessage } from '../message.ts';
import type { Draft, Intent, Message } from '../message.ts';
import { SendKey } from '../names.ts';
import type { Acceptance } from '../ports/journal.ts';

/** Gives an agent a role. False if the agent already has it. A name is an agent or a role, never both. spec: message#names */
export async function giveRole({ name, home }: Who, role: AgentName): Promise<boolean> {
  const { roles: before } = await extrasOf(home, name);
  await home.directory.amend(name, ({ roles }, everybody) => {
    if (roles.includes(role)) return null;
    if (alike(role, HOST_NAME))
      throw new Refusal('name_taken', `under "${HOST_NAME}" Parley itself writes; pick another name`);
    const all = everybody();
    const agent = all.find((record) => alike(record.name, role));
    if (agent) throw new Refusal('name_taken', `@${agent.name} is an agent; a name is an agent or a role, never both`);
    const other = all.flatMap((record) => record.parley?.roles ?? []).find((one) => one !== role && alike(one, role));
    if (other)
      throw new Refusal('name_taken', `there is a role @${other}; two that differ only by case would be confused`);
    return { roles: [...roles, role] };
  });
  return !before.includes(role);
}

/** Takes a role from an agent. False if the agent did not have it. */
export async function takeRole({ name, home }: Who, role: AgentName): Promise<boolean> {
  const { roles: before } = await extrasOf(home, name);
  await home.directory.amend(name, ({ roles }) =>
    roles.includes(role) ? { roles: roles.filter((one) => one !== role) } : null,
  );
  return before.includes(role);
}

/**
 * Makes a person the owner, who gets a notice when nobody else can decide. There is at most one. To replace an owner, name the old one; if
 * several try at once, one succeeds. The old owner is removed first, so a crash in between leaves no owner, and notices wait for the next.
 * False if this person was the owner before.
 */
export async function becomeOwner({ name, home }: Who, insteadOf?: AgentName): Promise<boolean> {
  const own = await extrasOf(home, name);
  if (own.kind !== 'human') throw new Refusal('not_yours', `@${name} is an agent; only a person can be the owner`);
  if (own.owner) return false;
  refuseOtherOwner(await ownersOf(home), name, insteadOf);
  if (insteadOf !== undefined) await home.directory.amend(insteadOf, () => ({ owner: undefined }));
  await home.directory.amend(name, (_own, everybody) => {
    refuseOtherOwner(ownersIn(everybody()), name, undefined);
    return { owner: true };
  });
  return true;
}

/** Refuses to replace an owner who was not named. */
export function refuseOtherOwner(
  owners: readonly AgentName[],
  name: AgentName,
  insteadOf: AgentName | undefined,
): void {
  const others = owners.filter((one) => one !== name);
  const [other] = others;
  if (other && insteadOf === undefined)
    throw new Refusal('name_taken', `@${other} is the owner; to replace it: --instead-of ${other}`);
  if (insteadOf === undefined || others.includes(insteadOf)) return;
  const who = other ? `@${other} is` : 'nobody is, so leave out --instead-of';
  throw new Refusal('not_found', `@${insteadOf} is not the owner; ${who}`);
}

/** The names of the owners in this home. There is more than one only if a record was changed by hand. */
export async function ownersOf(home: Home): Promise<AgentName[]> {
  return ownersIn(await home.directory.list());
}

/** Makes an agent the owner of a channel or a thread. False if it already is. Each channel and thread has at most one owner. */
export async function own({ name, home }: Who, what: string): Promise<boolean> {
  const { owns: before = [] } = await extrasOf(home, name);
  await home.directory.amend(name, ({ owns = [] }, everybody) => {
    if (owns.includes(what)) return null;
    const holder = everybody().find((record) => record.parley?.owns?.includes(what));
    if (holder)
      throw new Refusal(
        'already_claimed',
        `@${holder.name} owns ${what}; it gives it up by \`parley own "${what}" --release --as ${holder.name}\``,
      );
    return { owns: [...owns, what] };
  });
  return !before.includes(what);
}

/** Gives up a channel or a thread. False if this agent did not own it. */
export async function disown({ name, home }: Who, what: string): Promise<boolean> {
  const { owns: before = [] } = await extrasOf(home, name);
  await home.directory.amend(name, ({ owns = [] }) => {
    const rest = owns.filter((one) => one !== what);
    return rest.length < owns.length ? { owns: rest.length > 0 ? rest : undefined } : null;
  });
  return before.includes(what);
}

/** Our own fields of an agent's record. */
async function extrasOf(home: Home, name: AgentName): Promise<NonNullable<AgentRecord['parley']>> {
  return (await home.directory.get(name))?.parley ?? { v: 1, kind: 'agent', roles: [] };
}

function ownersIn(records: readonly AgentRecord[]): AgentName[] {
  return records.filter(({ parley }) => parley?.kind === 'human' && parley.owner === true).map(({ name }) => name);
}

function alike(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** How many held notices are read for a new owner. */
const HELD_LOOK = 200;
const HELD = 'held/';

/** The person who gets a notice when nobody else can decide. */
export async function ownerOf(home: Home): Promise<AgentRecord | null> {
  return (await home.directory.list()).find(({ parley }) => parley?.kind === 'human' && parley.owner === true) ?? null;
}

/** A notice for the owner, sent once per key. */
export interface OwnerNotice {
  key: string;
  body: string;
  thread?: MessageId;
  intent?: Intent;
}

/** Sends the owner a notice, once per key. Without an owner the notice is kept and the result is false; `sendHeld` sends it to the next owner. */
export async function tellOwner(workspace: Workspace, home: Home, notice: OwnerNotice): Promise<boolean> {
  const owner = await ownerOf(home);
  if (!owner) {
    const kept = noticeTo('owner', { ...notice, key: `${HELD}${notice.key}` });
    const isKept = await home.journal.underKey(HOST_NAME, kept.key);
    if (!isKept) await home.journal.accept({ message: composeOwn(workspace, kept), copies: [], key: kept.key });
    return false;
  }
  await post(workspace, home, noticeTo(owner.name, notice), owner.name, NOTICE);
  return true;
}

/** Sends the owner the notices that were kept while there was none. Returns how many were sent. */
export async function sendHeld(workspace: Workspace, home: Home): Promise<number> {
  const owner = await ownerOf(home);
  if (!owner) return 0;
  let sent = 0;
  for (const { message } of (await home.journal.history({ agent: HOST_NAME, limit: HELD_LOOK })).reverse()) {
    const { key = '', intent } = message.parley ?? {};
    if (!key.startsWith(HELD)) continue;
    const notice = { key: key.slice(HELD.length), body: message.body, ...(intent && { intent }) };
    const { first } = await post(workspace, home, noticeTo(owner.name, notice), owner.name, NOTICE);
    if (first) sent += 1;
  }
  return sent;
}

/** Stores a message of Parley itself in one mailbox, with this attention, once per key. */
export async function post(
  workspace: Workspace,
  home: Home,
  draft: Partial<Draft> & Pick<Draft, 'to' | 'body'> & { key: SendKey },
  mailbox: AgentName,
  attention: Attention,
): Promise<Acceptance> {
  const earlier = await home.journal.underKey(HOST_NAME, draft.key);
  if (earlier) return { ...earlier, first: false };
  return home.mailboxes.put({
    message: composeOwn(workspace, draft),
    copies: [{ mailbox, attention }],
    key: draft.key,
  });
}

/** A send key made from any text. */
export function sendKeyOf(text: string): SendKey {
  return SendKey.parse(text.replace(/\p{Cc}/gu, ' ').slice(0, 200));
}

/** The attention of a notice: it is shown and needs no answer. */
const NOTICE: Attention = {
  directedness: 'to_me',
  policy: 'may_respond',
  injection: 'buffered',
  reason: 'direct_message',
};

function noticeTo(name: string, { key, body, thread, intent = 'fyi' }: OwnerNotice) {
  return { to: `@${name}`, body, intent, key: sendKeyOf(key), ...(thread && { thread }) };
}

/** Makes a message whose author is Parley itself. */
function composeOwn(workspace: Workspace, draft: Partial<Draft> & Pick<Draft, 'to' | 'body'>): Message {
  const stamp = { id: workspace.newId(), from: HOST_NAME, ts: new Date(workspace.now()).toISOString() };
  return composeMessage({ priority: 'normal', intent: 'none', ...draft }, stamp);
}
