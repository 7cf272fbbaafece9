import { Injection, isQuiet } from '../../protocol/attention.ts';
import type { Quieter } from '../../protocol/host.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { CopyRecord } from '../../storage/ledger/ledger.ts';
import type { Who } from '../workspace.ts';
import { unknownEvent } from '../sight.ts';
import type { Runner } from './runner.ts';

/** From loudest to quietest. */
const MODES = Injection.inner.options;

/**
 * A harness wants less of an event than the host decided on. It is put back and comes in that way, or not at all; why is kept with
 * it. What is owed stays owed, and the policy is the host's: for more, nobody can ask. spec: host#quieter
 */
export async function askQuieter(runner: Runner, { eventId, mode, reason }: Quieter): Promise<{ mode: Injection }> {
  const { session } = runner;
  const { who, copy } = await openCopy(runner, eventId);
  const { injection } = copy.attention;
  if (MODES.indexOf(mode) < MODES.indexOf(injection)) {
    throw new Refusal('against_policy', `it was decided that this comes as ${injection}; ask for that or for quieter`);
  }
  if (mode === injection) return { mode };
  const attention = { ...copy.attention, injection: mode };
  await who.home.ledger.reconsider(who.name, eventId, attention);
  const at = new Date(session.house.deps.now()).toISOString();
  const evidence = { way: 'host', session: session.id, was: injection, injection: mode, because: reason };
  await who.home.ledger.record(who.name, eventId, { step: 'reconsidered', at, evidence });
  runner.letGo(who, eventId);
  await who.home.spool.release({ mailbox: who.name, owner: session.owner }, [eventId], { because: reason });
  if (isQuiet(attention)) await who.home.spool.lower(who.name, eventId);
  runner.ring();
  return { mode };
}

/** The copy that this session has, or that waits for it. Any other does not exist for it. */
async function openCopy({ session }: Runner, id: CopyRecord['id']): Promise<{ who: Who; copy: CopyRecord }> {
  for (const who of session.whos) {
    const copy = await who.home.ledger.copy(who.name, id);
    if (copy && (copy.state === 'stored' || copy.owner === session.owner)) return { who, copy };
  }
  throw unknownEvent(id);
}
