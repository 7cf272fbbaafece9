import type { Progress, ToolArguments } from '../../protocol/host.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Who } from '../workspace.ts';
import { say } from '../say.ts';
import type { Sent } from '../send.ts';
import { neverShown } from '../shown.ts';
import type { House } from './house.ts';
import type { Session } from './session.ts';
import { bridgeName, rawConversation } from './source.ts';
import type { Surface } from './surface.ts';

/** How long a tool waits to hear from a surface: what is not shown by then is shown later. */
const PATIENCE_MS = 5000;

type Said = ToolArguments<'chat.send_message'>;

/** Says something. For a moment only where a surface can do that, and to one person there: it is never shown to more. */
export async function speak(house: House, who: Who, said: Said): Promise<Sent> {
  const { workspace } = house.deps;
  if (said.visibility !== 'ephemeral') return say(workspace, who, said);
  const surface = house.surfaceOf(said.target.replace(/^@/, ''));
  if (!surface?.ephemeral) {
    throw new Refusal('not_in_this_version', `nothing there can show a message for a moment only; send it as a dm`);
  }
  const id = workspace.newId();
  surface.showing.forAMoment(id);
  return say({ ...workspace, newId: () => id }, who, { ...said, visibility: 'dm' });
}

/**
 * What became of it at a surface, as far as that is known soon. If it can never be shown there its sender hears so, and may say it in
 * another way: nobody has seen it.
 */
export async function shownAt(house: House, { message, copies }: Sent): Promise<{ shown?: boolean }> {
  const at = copies.flatMap(({ mailbox }) => {
    const surface = house.surfaceOf(mailbox);
    const isShownThere = surface && (!message.to.startsWith('#') || mailbox === bridgeName(surface.platform));
    return isShownThere ? [{ surface, mailbox }] : [];
  });
  let shown: boolean | undefined;
  for (const { surface, mailbox } of at) {
    const ended = (): Promise<boolean> => wasShown(house, mailbox, message.id);
    const isShown =
      (await ended()) || (await surface.showing.outcome(message.id, PATIENCE_MS)) === 'shown' || (await ended());
    shown = isShown && shown !== false;
  }
  return shown === undefined ? {} : { shown };
}

/** False while nobody can tell. What it refused is told as a refusal. */
async function wasShown({ deps }: House, mailbox: AgentName, id: MessageId): Promise<boolean> {
  const copy = await deps.home.ledger.copy(mailbox, id);
  if (copy?.state !== 'settled') return false;
  if (copy.disposition === 'failed') throw neverShown(copy.settledBy ?? {});
  return true;
}

/** How far the work of a session is, at the surfaces that have one of its channels. It is no chat: nothing is kept, and nobody is called. */
export async function showProgress(
  { deps }: House,
  session: Session,
  { progressToken, progress, total, message }: Progress,
  surfaces: readonly Surface[],
): Promise<void> {
  for (const { platform, wire } of surfaces) {
    const bridge = await deps.home.directory.get(bridgeName(platform));
    for (const stream of session.record.streams) {
      if (!bridge?.subscriptions.includes(stream)) continue;
      const id = `progress.${session.id}.${progressToken}`;
      const shown = wire.show({
        what: 'progress',
        id,
        idempotencyKey: `${id}.${progress}`,
        conversation: { id: rawConversation(stream), kind: 'channel' },
        author: {
          id: session.whos[0]?.name ?? session.id,
          kind: 'agent',
          displayName: session.whos[0]?.name ?? session.id,
        },
        visibility: 'channel',
        mentions: [],
        text: [`${progress}${total === undefined ? '' : `/${total}`}`, message].filter(Boolean).join(' '),
      });
      // The next word on it is as good: nobody waits for this one.
      shown.catch(() => {});
    }
  }
}
