import type { Attention } from '../protocol/attention.ts';
import { composeMessage } from '../protocol/message.ts';
import type { Draft, Intent, Message } from '../protocol/message.ts';
import { SendKey } from '../protocol/names.ts';
import type { AgentName, MessageId } from '../protocol/names.ts';
import { HOST_NAME } from '../protocol/signal.ts';
import type { AgentRecord } from '../storage/directory/directory.ts';
import type { Acceptance } from '../storage/ledger/ledger.ts';
import type { Workspace, Home } from './workspace.ts';

/** How many notices that nobody could get are looked through for those that still wait for an owner. */
const HELD_LOOK = 200;
const HELD = 'held/';

/** The one person who is told when nobody else can decide. */
export async function ownerOf(home: Home): Promise<AgentRecord | null> {
  return (await home.directory.list()).find(({ parley }) => parley?.kind === 'human' && parley.owner === true) ?? null;
}

/** Something that the owner should know, once per key. */
export interface Notice {
  key: string;
  body: string;
  thread?: MessageId;
  intent?: Intent;
}

/** Tells the owner, once per key. Without an owner it is kept and answered false; whoever becomes the owner gets it by `sendHeld`. */
export async function tellOwner(workspace: Workspace, home: Home, notice: Notice): Promise<boolean> {
  const owner = await ownerOf(home);
  if (!owner) {
    const kept = noticeTo('owner', { ...notice, key: `${HELD}${notice.key}` });
    const isKept = await home.ledger.underKey(HOST_NAME, kept.key);
    if (!isKept) await home.ledger.accept({ message: written(workspace, kept), copies: [], key: kept.key });
    return false;
  }
  await post(workspace, home, noticeTo(owner.name, notice), owner.name, TOLD);
  return true;
}

/** Gives a new owner the notices that came before there was one. Costs one look where there are none. */
export async function sendHeld(workspace: Workspace, home: Home): Promise<number> {
  const owner = await ownerOf(home);
  if (!owner) return 0;
  let sent = 0;
  for (const { message } of (await home.ledger.history({ agent: HOST_NAME, limit: HELD_LOOK })).reverse()) {
    const { key = '', intent } = message.parley ?? {};
    if (!key.startsWith(HELD)) continue;
    const notice = { key: key.slice(HELD.length), body: message.body, ...(intent && { intent }) };
    const { first } = await post(workspace, home, noticeTo(owner.name, notice), owner.name, TOLD);
    if (first) sent += 1;
  }
  return sent;
}

/** Leaves one message of our own in one mailbox, with the decision that goes with it. Once per key. */
export async function post(
  workspace: Workspace,
  home: Home,
  draft: Partial<Draft> & Pick<Draft, 'to' | 'body'> & { key: SendKey },
  mailbox: AgentName,
  attention: Attention,
): Promise<Acceptance> {
  const earlier = await home.ledger.underKey(HOST_NAME, draft.key);
  if (earlier) return { ...earlier, first: false };
  return home.spool.put({ message: written(workspace, draft), copies: [{ mailbox, attention }], key: draft.key });
}

/** A key that any id and name fit into. */
export function keyOf(text: string): SendKey {
  return SendKey.parse(text.replace(/\p{Cc}/gu, ' ').slice(0, 200));
}

/** Worth seeing, and nothing is owed for it. */
const TOLD: Attention = {
  directedness: 'to_me',
  policy: 'may_respond',
  injection: 'buffered',
  reason: 'direct_message',
};

function noticeTo(name: string, { key, body, thread, intent = 'fyi' }: Notice) {
  return { to: `@${name}`, body, intent, key: keyOf(key), ...(thread && { thread }) };
}

function written(workspace: Workspace, draft: Partial<Draft> & Pick<Draft, 'to' | 'body'>): Message {
  const stamp = { id: workspace.newId(), from: HOST_NAME, ts: new Date(workspace.now()).toISOString() };
  return composeMessage({ priority: 'normal', intent: 'none', ...draft }, stamp);
}
