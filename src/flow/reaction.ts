import { newDuty } from '../attention/ladder.ts';
import type { Duty } from '../protocol/duty.ts';
import type { Message } from '../protocol/message.ts';
import { isMessageId } from '../protocol/names.ts';
import type { AgentName, SendKey } from '../protocol/names.ts';
import { HOST_NAME } from '../protocol/signal.ts';
import { rootOf } from './conversation.ts';
import type { Workspace, Home } from './workspace.ts';
import { afterEnd, signalled } from './duty.ts';
import { escalate } from './escalate.ts';
import { keyOf, post } from './people.ts';

/** How much of an exchange is looked at for reactions that came before their event. */
const EXCHANGE = 200;
/** When a step is tried again that was begun and not finished. */
const SOON_MS = 60_000;

/**
 * Does to a duty what a reaction means, and what follows from it. Null if nothing is owed. What follows is done first, and what is
 * owed stays due until then: a crash in between loses nothing.
 */
export async function applyReaction(
  workspace: Workspace,
  home: Home,
  name: AgentName,
  message: Message,
  reaction: Message,
): Promise<Duty | null> {
  let outcome: ReturnType<typeof signalled> | undefined;
  const duty = await home.ledger.changeDuty(name, message.id, (open) => {
    outcome = signalled(open, message, reaction);
    return outcome.follow === 'nothing' ? outcome.duty : { ...open, due: workspace.now() + SOON_MS };
  });
  if (!duty || !outcome) return duty;
  if (outcome.duty.ended) await afterEnd(home, duty);
  if (outcome.follow === 'nothing') return duty;
  if (outcome.follow === 'escalate') await escalate(workspace, home, [outcome.duty]);
  if (outcome.follow === 'ask_back') await askBack(workspace, home, message.from as AgentName, reaction);
  const { state, tier, due } = outcome.duty;
  return home.ledger.changeDuty(name, message.id, (open) => ({ ...open, state, tier, due }));
}

/** A reaction that was there before its event, and by which more is to be done than a duty can say of itself. True if there was one. */
export async function applyLate(workspace: Workspace, home: Home, duty: Duty, message: Message): Promise<boolean> {
  if (duty.state !== 'open' || duty.tier > 0) return false;
  for (const said of await home.ledger.exchange(rootOf(message), EXCHANGE)) {
    if (said.parley?.signal === undefined || signalled(duty, message, said).follow === 'nothing') continue;
    if (await wasAsked(home, message.from as AgentName, said)) continue;
    await applyReaction(workspace, home, duty.mailbox, message, said);
    return true;
  }
  return false;
}

/** What was unclear is now owed by its author: an answer to the reaction ends that, and the duty that waited goes on. */
async function askBack(workspace: Workspace, home: Home, author: AgentName, reaction: Message): Promise<void> {
  const copies = (await home.ledger.trace(reaction.id))?.copies ?? [];
  const copy = copies.find(({ mailbox }) => mailbox === author);
  if (!copy) return askForOther(workspace, home, author, reaction);
  const attention = { ...copy.attention, policy: 'must_respond' as const };
  await home.ledger.reconsider(author, reaction.id, attention);
  const isPerson = (await home.directory.get(author))?.parley?.kind === 'human';
  await home.ledger.addDuty(newDuty({ message: reaction, mailbox: author, attention, isPerson }));
}

/** When it reacted nobody knew yet who the author is: so the question is handed on. */
async function askForOther(workspace: Workspace, home: Home, author: AgentName, reaction: Message): Promise<void> {
  if (!(await home.directory.get(author))) return;
  await post(
    workspace,
    home,
    {
      to: `@${author}`,
      body: reaction.body,
      key: askedKey(reaction),
      signal: 'unclear',
      recipient: reaction.from as AgentName,
      ...(isMessageId(reaction.thread) && { thread: reaction.thread }),
    },
    author,
    { directedness: 'to_me', policy: 'must_respond', injection: 'notify', reason: 'reaction' },
  );
}

async function wasAsked(home: Home, author: AgentName, reaction: Message): Promise<boolean> {
  if (await home.ledger.duty(author, reaction.id)) return true;
  return (await home.ledger.underKey(HOST_NAME, askedKey(reaction))) !== null;
}

function askedKey({ id }: Message): SendKey {
  return keyOf(`ask/${id}`);
}
