import { openDesk } from '../../src/cli/wiring.ts';
import { attend } from '../../src/flow/attend.ts';
import type { Desk, Home } from '../../src/flow/desk.ts';
import { owe } from '../../src/flow/owe.ts';
import { send } from '../../src/flow/send.ts';
import { BODY_LIMIT, Draft } from '../../src/protocol/message.ts';
import type { AgentName } from '../../src/protocol/names.ts';
import { alice, aMessage, bob, carol, copiesFor } from '../../test/support/mail.ts';
import { beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY } from '../mailroom.ts';
import { interleave } from '../measure.ts';

/** Decisions are too short to be timed one by one. */
const AT_ONCE = 200;

/** What it costs to decide who is meant, beside storing; and to say what is owed, however much that is. */
export async function attentionFigure(bench: Bench): Promise<Row[]> {
  bench.tell('attention');
  const { desk, home } = await aHome(bench);
  const { desk: plainDesk, home: plain } = await aHome(bench);
  const draft = Draft.parse({ to: '@bob', body: BODY });
  const reader = await home.directory.get(bob);
  if (!reader) throw new Error('bob has a record');
  const exchange = { fromAgent: true, lineage: undefined, earlier: [] };
  const rounds = bench.quick ? 100 : 500;
  const message = aMessage({ body: BODY });
  const decisions = await interleave(rounds, {
    decide: async () => {
      for (let n = 0; n < AT_ONCE; n += 1) await attend(home, message, reader, 'dm', exchange);
    },
  });
  const sends = await interleave(rounds, {
    send: async () => {
      await send(desk, alice, draft);
    },
    put: async () => {
      await plain.spool.put({ message: aMessage({ body: BODY }), copies: copiesFor(bob) });
      await plain.directory.seen(alice);
    },
  });
  const each = decisions.decide.median / AT_ONCE;
  const owed = await owedRow(bench);
  for (const one of [...desk.homes, ...plainDesk.homes]) await one.ledger.close();
  return [
    {
      what: 'attention: one decision',
      floor: '20 µs',
      ours: `${(each * 1000).toFixed(1)} µs`,
      beside: '',
      ratio: each / 0.02,
      tail: null,
      limit: 1,
    },
    beside('attention: a send, routed and decided', 'the same message only stored', 1.15, sends.send, sends.put),
    owed,
  ];
}

/** The first page of what is owed, where very much is, beside where little is. */
async function owedRow(bench: Bench): Promise<Row> {
  const many = bench.quick ? 10_000 : 100_000;
  const { desk, home } = await aHome(bench);
  await oweMany(home, bob, many);
  await oweMany(home, carol, 100);
  const ask = async (name: AgentName): Promise<void> => {
    await owe({ name, home }, { limit: 20 });
  };
  await ask(bob);
  const times = await interleave(bench.quick ? 50 : 300, { many: () => ask(bob), few: () => ask(carol) });
  for (const one of desk.homes) await one.ledger.close();
  return beside(`owe with ${many.toLocaleString('en')} open duties`, 'with 100', 2, times.many, times.few);
}

async function oweMany(home: Home, reader: AgentName, count: number): Promise<void> {
  for (let at = 0; at < count; at += 500) {
    const entries = Array.from({ length: Math.min(500, count - at) }, () => ({
      message: aMessage({ to: `@${reader}` }),
      copies: copiesFor(reader),
    }));
    await home.ledger.acceptTogether(entries);
  }
}

async function aHome(bench: Bench): Promise<{ desk: Desk; home: Home }> {
  const env = { PARLEY_HOME: bench.fresh(), BACKCHANNEL_HOME: `${bench.fresh()}/none` };
  const desk = openDesk(env, { bodyLimit: BODY_LIMIT, durability: 'normal' }, 'parley');
  const [home] = desk.homes;
  if (!home) throw new Error('a desk has a home');
  for (const name of [alice, bob, carol]) await home.directory.register(name, 'agent');
  return { desk, home };
}
