import { beside, notMeasured } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY } from '../mailroom.ts';
import { interleave } from '../measure.ts';
import type { Act } from '../measure.ts';
import { envOf, run } from '../program.ts';

/** Another program for the same task. It is no part of this project: the caller gives the path of an installed copy. */
interface Peer {
  name: string;
  variable: 'PEER_BCH' | 'PEER_C2C';
  env: (home: string) => Record<string, string>;
  prepare: string[][];
  send: string[];
  look: string[];
}

const PEERS: Peer[] = [
  {
    name: 'bch',
    variable: 'PEER_BCH',
    env: (home) => ({ BACKCHANNEL_HOME: `${home}/.backchannel`, BACKCHANNEL_AGENT: 'alice' }),
    prepare: [
      ['init', 'alice'],
      ['init', 'bob'],
    ],
    send: ['send', '@bob', BODY],
    look: ['inbox'],
  },
  {
    name: 'c2c',
    variable: 'PEER_C2C',
    env: (home) => ({
      C2C_MCP_BROKER_ROOT: `${home}/broker`,
      C2C_MCP_SESSION_ID: 'alice-session',
      C2C_MCP_AUTO_REGISTER_ALIAS: 'alice',
    }),
    prepare: [['register', 'alice']],
    send: ['send', 'alice', BODY],
    look: ['peek-inbox', '--json'],
  },
];

/** Our commands compared with theirs, in one run. */
export async function peersFigure(bench: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  for (const peer of PEERS) rows.push(...(await besidePeer(bench, peer)));
  return rows;
}

async function besidePeer(bench: Bench, peer: Peer): Promise<Row[]> {
  const titles = {
    send: ['`parley send`', `\`${peer.name} send\``],
    look: ['`parley inbox`, nothing waiting', `\`${peer.name} ${peer.look[0] ?? ''}\``],
  } as const;
  const skipped = (why: string): Row[] =>
    Object.values(titles).map(([ours, theirs]) => notMeasured(ours, theirs, null, why));
  const program = process.env[peer.variable];
  if (!program) return skipped(`${peer.variable} names no copy of ${peer.name}`);
  const env = envOf(bench.fresh());
  // A separate home: otherwise our commands would read theirs too.
  const theirHome = bench.fresh();
  const theirEnv = { ...envOf(theirHome), ...peer.env(theirHome) };
  try {
    for (const name of ['alice', 'bob']) run([bench.program(), 'init', name], env);
    for (const words of peer.prepare) run([program, ...words], theirEnv);
    // Measure reading first, while no mail waits.
    const look = await race(
      bench,
      () => run([bench.program(), 'inbox'], env),
      () => run([program, ...peer.look], theirEnv),
    );
    const ourSend = (): void => run([bench.program(), 'send', '@bob', BODY], env);
    const send = await race(bench, ourSend, () => run([program, ...peer.send], theirEnv));
    return [beside(...titles.send, null, send.ours, send.theirs), beside(...titles.look, null, look.ours, look.theirs)];
  } catch (error) {
    const [why] = (error instanceof Error ? error.message : String(error)).split('\n');
    return skipped(`${peer.variable} could not be measured: ${why}`);
  }
}

function race(bench: Bench, ours: Act, theirs: Act) {
  return interleave(bench.quick ? 10 : 40, { ours, theirs });
}
