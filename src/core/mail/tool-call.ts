import { visible } from '../history/sight.ts';
import { isMessageId } from '../names.ts';
import type { MessageId } from '../names.ts';
import { Refusal } from '../refusal.ts';
import type { Parsed } from '../schema.ts';
import type { Sent } from './send.ts';
import { shownSoon } from './shown.ts';
import type { ShownOutcome } from './shown.ts';
import type { Who, Workspace } from './workspace.ts';

/** The agent that calls a tool, and the workspace that the call works with. */
export interface ToolCaller {
  workspace: Workspace;
  who: Who;
  /** Fetches mail that waits for this agent at a relay or has no row yet, so that it can be found. */
  gather: (who: Who, prefix: string) => Promise<void>;
}

/** A face's noun for a message, and its tool that lists messages. */
export interface FaceWords {
  noun: string;
  list: string;
}

/** A connected surface takes a waiting message within a second. */
const PATIENCE = { takenMs: 2000, shownMs: 5000 };

export async function refusePerson({ name, home }: Who): Promise<void> {
  if ((await home.directory.get(name))?.parley?.kind !== 'human') return;
  throw new Refusal(
    'not_yours',
    `@${name} is a person, and tools are for agents; run \`parley init <name>\` and use that name`,
  );
}

/** Parses the arguments of a call. The Refusal names the first wrong one and says what to write instead. */
export function argumentsIn<T>(schema: { safeParse(given: unknown): Parsed<T> }, given: unknown): T {
  const read = schema.safeParse(given ?? {});
  if (read.success) return read.data;
  const isMissing = typeof given === 'object' && given !== null && read.path !== '' && !(read.path in given);
  throw new Refusal(
    'invalid_request',
    isMissing ? `${read.path} is missing` : `${read.path || 'arguments'}: ${read.why}`,
  );
}

/** Finds a message by its id or the beginning of its id, among the messages that this agent may see. */
export async function messageIn({ who, gather }: ToolCaller, start: string, words: FaceWords): Promise<MessageId> {
  await gather(who, start);
  const { journal, remote } = who.home;
  const ids = isMessageId(start) ? [...(await journal.idsLike(start)), ...((await remote?.sentAs(start)) ?? [])] : [];
  const found: MessageId[] = [];
  for (const id of new Set(ids)) if (await isVisible(who, id)) found.push(id);
  const exact = found.find((id) => id === start);
  const [only, ...others] = exact ? [exact] : found;
  if (only && others.length === 0) return only;
  const shown = start.replace(/[^\w.-]/g, '?').slice(0, 40);
  if (only) throw new Refusal('ambiguous', `several ${words.noun}s begin with ${shown}; give more of the id`);
  throw new Refusal('not_found', `no ${words.noun} ${shown} is here for you; see ${words.list}`);
}

async function isVisible(who: Who, id: MessageId): Promise<boolean> {
  try {
    await visible([who], id);
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return false;
    throw error;
  }
}

/** Waits a short time until a message was shown to people at surfaces; null if it goes to none. spec: mcp#shown */
export function showing({ workspace }: ToolCaller, sent: Sent): Promise<ShownOutcome | null> {
  return shownSoon(sent, workspace.now(), PATIENCE);
}
