import { afterAll, describe, expect, it } from 'bun:test';
import type { Message } from '../../src/protocol/message.ts';
import { until } from '../support/bch.ts';
import { FarMachine } from '../support/far.ts';
import { parleyAtARelay, parleyWithoutKeys } from './far-parley.contract.ts';
import type { Letter } from './far-parley.contract.ts';

const open: FarMachine[] = [];
afterAll(async () => {
  for (const one of open) await one.close();
});

const RELAYS = {
  'the original': () => FarMachine.atOriginal('parley'),
  ours: () => FarMachine.atOurs('parley'),
};

async function far<K extends keyof typeof RELAYS>(kind: K): Promise<Awaited<ReturnType<(typeof RELAYS)[K]>>> {
  const machine = await RELAYS[kind]();
  open.push(machine);
  return machine as Awaited<ReturnType<(typeof RELAYS)[K]>>;
}

for (const kind of Object.keys(RELAYS) as (keyof typeof RELAYS)[]) {
  parleyAtARelay(`parley at a relay: ${kind}`, () => far(kind), it);
}

parleyWithoutKeys('parley at a relay that knows no keys', () => far('the original'), it);

describe('parley at a relay that knows keys', () => {
  it('sends the same letter again until it is answered, and it arrives once [BC-10]', async () => {
    const machine = await far('ours');
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    const lost = await machine.parley('send', '@bob', 'once');
    expect(lost.err).toContain('it is sent once more under its key when the relay is back');
    expect(lost.code).toBe(75);
    expect(machine.wire.met).toBe(3);
    machine.wire.fault = null;
    await machine.tells('inbox');
    expect(await machine.json<Letter[]>('outbox')).toEqual([]);
    expect(await machine.peer.bodies()).toEqual(['once']);
  });

  it('needs no second command if the answer comes at the second try', async () => {
    const machine = await far('ours');
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    const sending = machine.start('parley', ['send', '@bob', 'once']);
    await until('the send', () => machine.wire.met > 0);
    machine.wire.fault = null;
    await sending.ended();
    expect(sending.run().out).toMatch(/^stored /);
    expect(await machine.peer.bodies()).toEqual(['once']);
  });

  it('tells what the relay can prove: that the reader has it', async () => {
    const machine = await far('ours');
    const { id } = await machine.json<Message>('send', '@bob', 'hi', '--intent', 'question');
    expect(await machine.tells('trace', id)).toMatch(/at http:\S+\n {4}@bob {2}stored/);
    expect(await machine.peer.take(id)).toMatchObject({ body: 'hi', parley: { intent: 'question' } });
    expect(await machine.tells('trace', id)).toMatch(/settled {10}\S+Z {2}acknowledged, by relay, agent bob/);
  });

  it('tells a sender that its message was fetched, and no more', async () => {
    const machine = await far('ours');
    const sent = await machine.peer.send('@ann', 'hi');
    await machine.tells('drain');
    expect(await machine.peer.ask(`trace/${sent.id}`)).toMatchObject({
      copies: [{ mailbox: 'ann', state: 'settled', settledBy: { fetched: 'to the machine of its reader' } }],
    });
  });
});

describe('an agent at several relays', () => {
  it('says which it means', async () => {
    const one = await far('the original');
    const other = await far('the original');
    const joined = await one.parley('init', 'ann', '--url', other.wire.url, '--token', 'room');
    expect(joined.err).toContain('agent name "ann" is registered');
    const { invite } = await one.json<{ invite: string }>('room', 'new', '--url', other.wire.url);
    expect((await one.parley('join', invite, '--as', 'ann')).err).toContain('@ann is at several relays now');
    expect((await one.parley('inbox')).err).toMatch(/set PARLEY_RELAY to one of ann@/);
    await one.peer.send('@ann', 'here');
    const port = new URL(one.wire.url).port;
    const { out } = await one.run('parley', ['inbox', '--brief'], { PARLEY_RELAY: port });
    expect(out).toContain('here');
  });
});
