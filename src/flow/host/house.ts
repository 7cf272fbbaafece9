import type { MessageId } from '../../protocol/names.ts';
import type { Copy } from '../../storage/ledger/ledger.ts';
import type { Chores } from './chores.ts';
import type { HostDeps, Limits } from './deps.ts';
import type { Item } from './item.ts';
import type { People } from './people.ts';
import type { ProgressLine } from '../../protocol/prompt.ts';
import type { Session } from './session.ts';
import type { Surface } from './surface.ts';

/** What the parts of the host share. */
export interface House {
  deps: HostDeps;
  limits: Limits;
  chores: Chores;
  people: People;
  /** Since when the author of this item types where it was said, as far as a surface tells. */
  typingSince: (item: Item) => number | null;
  /** The workspace of a platform, where a surface of it is bound. */
  workspaceOf: (platform: string) => string;
  /** How far the work is that others do where this session listens, as told since then. */
  progressAround: (session: Session, since: number) => Promise<ProgressLine[]>;
  /** The surface at which this agent is a person or bot, if it is connected. */
  surfaceOf: (name: string) => Surface | undefined;
  /** Something was stored: whoever has a copy should look; without copies, everybody. */
  stored: (copies?: readonly Copy[]) => void;
}

/** One thing that happened to a copy, at this moment. */
export async function noted(
  { deps }: House,
  mailbox: Item['who']['name'],
  id: MessageId,
  step: 'offered' | 'accepted' | 'shown' | 'knocked' | 'cancelled' | 'released',
  evidence: Record<string, string | number | boolean>,
): Promise<void> {
  const at = new Date(deps.now()).toISOString();
  await deps.home.ledger.record(mailbox, id, { step, at, evidence: { way: 'host', ...evidence } });
}
