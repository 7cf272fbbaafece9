import type { AgentName } from '../../protocol/names.ts';
import { goOnDuty } from '../duty.ts';
import type { Env } from '../env.ts';
import { openBroker } from '../wiring-broker.ts';
import { dutyOf, lookOf, runsAlready, whoRuns } from './run.ts';
import type { Wanted } from './wanted.ts';

/** What one look came to: how many messages went out or were told of, and why not more. */
export interface Once {
  count: number;
  because: string | null;
}

const WENT_OUT = ['woken', 'delivered', 'handed_over'];
const DID_NOT = ['left', 'not_woken_yet', 'unknown', 'given_up'];

/** The loop of a session, once: looks as long as there is something to give at once, and ends. */
export async function lookOnce(wanted: Wanted, env: Env, stop = new AbortController().signal): Promise<Once> {
  const duty = await goOnDuty(dutyOf(env, wanted));
  if (!duty) throw runsAlready(wanted, whoRuns(env, wanted));
  const parts = openBroker(wanted.broker_root);
  const once: Once = { count: 0, because: null };
  const note = (event: string, facts: Record<string, string | number>): void => {
    if (WENT_OUT.includes(event)) once.count += Number(facts['count'] ?? 0);
    if (DID_NOT.includes(event)) once.because = String(facts['because'] ?? 'nothing proves that it was taken');
  };
  try {
    await parts.home.spool.heal();
    const known = await parts.broker.session(wanted.session);
    const who = { name: (known?.row.alias ?? wanted.session) as AgentName, home: parts.home };
    const looking = await lookOf({ wanted, env, parts, note }, stop);
    try {
      let againMs = await looking.look(who);
      while (againMs === 0 && !stop.aborted) againMs = await looking.look(who);
      if (againMs !== null && once.count === 0) once.because ??= `not before ${Math.ceil(againMs / 1000)} s from now`;
    } finally {
      await looking.close();
    }
    return once;
  } finally {
    await parts.close();
    duty.leave();
  }
}
