import { saysAgain } from '../attention/secrets.ts';
import type { Draft, Message } from '../message.ts';
import type { AgentName, SendKey } from '../names.ts';
import { Refusal } from '../refusal.ts';
import { isAgent } from './attend.ts';
import type { Workspace, Home, Who } from './workspace.ts';
import { sendKeyOf, ownerOf, tellOwner } from '../obligations/owners.ts';
import { route } from './route.ts';
import { send } from './send.ts';

/** How many earlier messages are compared with the text. */
const LOOK = 100;
/** How many messages of a thread are searched for the owner's decision. */
const EXCHANGE = 200;

type Keyed = Draft & { key: SendKey };

/**
 * Refuses a draft that repeats to others what the agent was told in private, unless the owner agrees. The owner gets a message with the text
 * and the address. After a yes the text is sent, after a no it is not. Until then, sending it again is refused too. Without an owner nothing
 * is sent, and the next owner gets a notice about it. spec: c2a#private
 */
export async function refuseExposure(workspace: Workspace, who: Who, draft: Keyed): Promise<void> {
  const key = sendKeyOf(`held/${draft.key}`);
  const asked = await who.home.journal.underKey(who.name, key);
  if (asked) throw await refusalFor(who, asked.message);
  const source = await exposedBy(workspace, who, draft);
  if (!source) return;
  const owner = (await ownerOf(who.home))?.name;
  const why = `it says again what @${source.from} told you in private, and others would read it`;
  if (!owner) {
    const body =
      `@${who.name} would say to ${draft.to} what @${source.from} told it in private. It was not said, because nobody was here ` +
      `to ask. If it may be said, tell @${who.name} so: it can ask again now.`;
    await tellOwner(workspace, who.home, { key: `private/${who.name}/${draft.key}`, body });
    throw new Refusal('against_policy', `${why}; there is no owner who could allow it, so it is not said`);
  }
  const { to, body, refs, thread, intent, priority, aim } = draft;
  await send(workspace, who.name, {
    to: `@${owner}%${who.home.label}`,
    body,
    priority: 'normal',
    intent: 'approval',
    key,
    ...(refs && { refs }),
    held: { to, key: draft.key, intent, priority, ...(thread && { thread }), ...(aim && { aim }) },
  });
  throw new Refusal('against_policy', `${why}; @${owner} is asked, and a yes says it: do not send it in other words`);
}

/** A person said yes: sends the text to its first address, under the author's own key. */
export async function sayHeld(workspace: Workspace, home: Home, { from, body, refs, parley }: Message): Promise<void> {
  if (!parley?.held) return;
  const { to, intent = 'none', priority = 'normal', ...held } = parley.held;
  const draft = { ...held, intent, priority, body, ...(refs && { refs }) };
  await send(workspace, from as AgentName, { ...draft, to: to.includes('%') ? to : `${to}%${home.label}` });
}

/** The refusal for a text that the owner was already asked about. */
async function refusalFor({ home }: Who, request: Message): Promise<Refusal> {
  const said = await home.journal.exchange(request.parley?.lineage?.root ?? request.id, EXCHANGE);
  const last = said.findLast(({ thread, parley }) => thread === request.id && parley?.signal !== undefined);
  return last?.parley?.signal === 'declined'
    ? new Refusal('against_policy', `@${last.from} said no: it is not said to others`)
    : new Refusal('against_policy', `${request.to} was asked whether it may be said, and has not answered yet`);
}

/** The private message that this text would repeat to readers who did not get it, or null. The owner may read everything. */
async function exposedBy(workspace: Workspace, who: Who, draft: Draft): Promise<Message | null> {
  let readers: AgentName[] | undefined;
  for (const { message, recipients } of await who.home.journal.history({ agent: who.name, limit: LOOK })) {
    if (message.from === who.name || message.to === draft.to || !saysAgain(draft.body, message.body)) continue;
    if (!(await isPrivate(who.home, message))) continue;
    readers ??= (await route(workspace, who.name, draft.to)).recipients.map(({ name }) => name);
    const mayKnow = [message.from, (await ownerOf(who.home))?.name, ...recipients];
    if (readers.some((name) => !mayKnow.includes(name))) return message;
  }
  return null;
}

/** A message from a person to one agent, or in a chat with restricted access. */
async function isPrivate(home: Home, { from, to, parley }: Message): Promise<boolean> {
  if (parley?.private) return true;
  return !to.startsWith('#') && !(await isAgent(home, from));
}
