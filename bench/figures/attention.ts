import type { MailboxJournal } from '../../src/core/ports/journal.ts';
import { openWorkspace } from '../../src/daemon/homes.ts';
import { attend } from '../../src/core/mail/attend.ts';
import type { Workspace, Home } from '../../src/core/mail/workspace.ts';
import { owe } from '../../src/core/obligations/owed.ts';
import { react } from '../../src/core/obligations/react.ts';
import { send } from '../../src/core/mail/send.ts';
import { BODY_LIMIT, Draft } from '../../src/core/message.ts';
import { AgentName, ChannelName } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';
import { Signal } from '../../src/core/signal.ts';
import { alice, aMessage, bob, carol, copiesFor } from '../../test/support/mail.ts';
import { beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY } from '../mailroom.ts';
import { interleave } from '../measure.ts';

/** Decisions per sample: one decision is too short to be timed. */
const AT_ONCE = 200;

/** The cost of deciding how a message is seen, compared with storing it, and of listing obligations, however many there are. */
export async function attentionFigure(bench: Bench): Promise<Row[]> {
  bench.tell('attention');
  const { workspace, home } = await aHome(bench);
  const { workspace: plainWorkspace, home: plain } = await aHome(bench);
  const draft = Draft.parse({ to: '@bob', body: BODY });
  const reader = await home.directory.get(bob);
  if (!reader) throw new Error('bob has a record');
  const exchange = { fromAgent: true, lineage: undefined, earlier: [], guard: null };
  const rounds = bench.quick ? 100 : 500;
  const decisions = await interleave(rounds, {
    decide: async () => {
      for (let n = 0; n < AT_ONCE; n += 1) await attend(home, aMessage({ body: BODY }), reader, 'dm', exchange);
    },
  });
  const sends = await interleave(rounds, {
    send: async () => {
      await send(workspace, alice, draft);
    },
    put: async () => {
      await plain.mailboxes.put({ message: aMessage({ body: BODY }), copies: copiesFor(bob) });
      await plain.directory.seen(alice);
    },
  });
  const each = decisions.decide.median / AT_ONCE;
  const owed = await owedRow(bench);
  const reaction = await reactionRow(bench);
  const channel = await channelRow(bench);
  for (const one of [...workspace.homes, ...plainWorkspace.homes]) await one.journal.close();
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
    reaction,
    channel,
  ];
}

/** A reaction to an event, with its effect on the event, compared with a plain send. */
async function reactionRow(bench: Bench): Promise<Row> {
  const { workspace, home } = await aHome(bench, true);
  const draft = Draft.parse({ to: '@bob', body: BODY });
  const rounds = bench.quick ? 100 : 500;
  const waiting: MessageId[] = [];
  for (let n = 0; n < rounds; n += 1) waiting.push((await send(workspace, alice, draft)).message.id);
  const done = Signal.parse('done');
  const times = await interleave(rounds, {
    react: async () => {
      const id = waiting.pop();
      if (id) await react(workspace, { name: bob, home }, id, { signal: done });
    },
    send: async () => {
      await send(workspace, alice, draft);
    },
  });
  await closeAll(workspace);
  return beside('a reaction that ends what is owed', 'a plain send', 3, times.react, times.send);
}

/** A post to a channel that very many people read at a surface, compared with a channel that one person reads. */
async function channelRow(bench: Bench): Promise<Row> {
  const many = bench.quick ? 200 : 1000;
  const { workspace, home } = await aHome(bench, true);
  const [full, empty] = ['#full', '#empty'].map((name) => ChannelName.parse(name)) as [ChannelName, ChannelName];
  const join = async (name: string, kind: 'agent' | 'human', ...channels: ChannelName[]): Promise<void> => {
    await home.directory.register(AgentName.parse(name), kind);
    for (const channel of channels) await home.directory.subscribe(AgentName.parse(name), channel);
  };
  await join('chat._surface', 'agent', full, empty);
  await join('chat.p0', 'human', full, empty);
  for (let n = 1; n < many; n += 1) await join(`chat.p${n}`, 'human', full);
  const post = async (to: ChannelName): Promise<void> => {
    await send(workspace, alice, Draft.parse({ to, body: BODY }));
  };
  const times = await interleave(bench.quick ? 50 : 300, { full: () => post(full), empty: () => post(empty) });
  await closeAll(workspace);
  const what = `a post to a channel with ${many.toLocaleString('en')} people at a surface`;
  return beside(what, 'with one', 3, times.full, times.empty);
}

async function closeAll(workspace: Workspace): Promise<void> {
  for (const { journal, directory } of workspace.homes) {
    await directory.close();
    await journal.close();
  }
}

/** The first page of very many obligations, compared with the first page of few. */
async function owedRow(bench: Bench): Promise<Row> {
  const many = bench.quick ? 10_000 : 100_000;
  const { workspace, home } = await aHome(bench);
  await oweMany(home, bob, many);
  await oweMany(home, carol, 100);
  const ask = async (name: AgentName): Promise<void> => {
    await owe({ name, home }, { limit: 20 });
  };
  await ask(bob);
  const times = await interleave(bench.quick ? 50 : 300, { many: () => ask(bob), few: () => ask(carol) });
  for (const one of workspace.homes) await one.journal.close();
  return beside(`owe with ${many.toLocaleString('en')} open duties`, 'with 100', 2, times.many, times.few);
}

async function oweMany(home: Home, reader: AgentName, count: number): Promise<void> {
  for (let at = 0; at < count; at += 500) {
    const entries = Array.from({ length: Math.min(500, count - at) }, () => ({
      message: aMessage({ to: `@${reader}` }),
      copies: copiesFor(reader),
    }));
    await (home.journal as MailboxJournal).acceptTogether(entries);
  }
}

async function aHome(bench: Bench, stays = false): Promise<{ workspace: Workspace; home: Home }> {
  const env = { PARLEY_HOME: bench.fresh(), BACKCHANNEL_HOME: `${bench.fresh()}/none` };
  const workspace = openWorkspace(env, { bodyLimit: BODY_LIMIT, durability: 'normal' }, { stays });
  const [home] = workspace.homes;
  if (!home) throw new Error('a workspace has a home');
  for (const name of [alice, bob, carol]) await home.directory.register(name, 'agent');
  return { workspace, home };
}
