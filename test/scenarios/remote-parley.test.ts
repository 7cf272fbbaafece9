import { afterAll, describe, expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import type { Message } from '../../src/core/message.ts';
import { AgentName, newSenderId } from '../../src/core/names.ts';
import { until } from '../support/bch.ts';
import { Caller } from '../support/caller.ts';
import { RemoteMachine } from '../support/remote.ts';
import { parleyAtARelay, parleyWithoutKeys } from './remote-parley.contract.ts';
import type { Letter } from './remote-parley.contract.ts';

const open: RemoteMachine[] = [];
afterAll(async () => {
  for (const one of open) await one.close();
});

const RELAYS = {
  'the original': () => RemoteMachine.atOriginal('parley'),
  ours: () => RemoteMachine.atOurs('parley'),
};

async function remote<K extends keyof typeof RELAYS>(kind: K): Promise<Awaited<ReturnType<(typeof RELAYS)[K]>>> {
  const machine = await RELAYS[kind]();
  open.push(machine);
  return machine as Awaited<ReturnType<(typeof RELAYS)[K]>>;
}

for (const kind of Object.keys(RELAYS) as (keyof typeof RELAYS)[]) {
  parleyAtARelay(`parley at a relay: ${kind}`, () => remote(kind), it);
}

parleyWithoutKeys('parley at a relay that knows no keys', () => remote('the original'), it);

describe('parley at a relay that knows keys', () => {
  it('sends the same letter again until it is answered, and it arrives once [BC-10]', async () => {
    const machine = await remote('ours');
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

  it('says what to do when its token is revoked', async () => {
    const machine = await remote('ours');
    const host = { HOME: machine.relay.home, BACKCHANNEL_HOME: machine.relay.home };
    const revoked = await machine.run('parley', ['relay', 'token', 'revoke', 'ann'], host);
    expect(revoked.code).toBe(0);
    // A relay that runs learns it within a second.
    let refused = await machine.parley('inbox');
    for (; refused.code === 0; refused = await machine.parley('inbox')) await Bun.sleep(50);
    const { url } = machine.wire;
    expect(refused.code).toBe(67);
    expect(refused.err).toBe(
      `parley: the relay ${url} does not accept the token of @ann: it was revoked or replaced. Ask the operator of the relay for a ` +
        `new one (\`parley relay token issue ann\`), then: parley init ann --url ${url} --token-file <file>\n`,
    );
    const issued = await machine.run('parley', ['relay', 'token', 'issue', 'ann'], host);
    const file = `${machine.program.home}/new-token`;
    writeFileSync(file, issued.out);
    await machine.tells('init', 'ann', '--url', url, '--token-file', file);
    expect(await machine.tells('inbox')).toBe('inbox empty\n');
  });

  it('keeps the id of what was queued, and of what is sent at once', async () => {
    const machine = await remote('ours');
    await machine.wire.down();
    await machine.parley('send', '@bob', 'queued');
    const [letter] = await machine.json<Letter[]>('outbox');
    await machine.wire.up();
    const { id } = await machine.json<Message>('send', '@bob', 'at once');
    expect((await machine.peer.inbox()).map((one) => one.id)).toEqual([letter?.id ?? '', id]);
  });

  it('takes an id from its sender once, however many bring it at the same time', async () => {
    const machine = await remote('ours');
    const carl = await Caller.register(machine.relay.url, 'carl', 'room');
    const id = newSenderId(AgentName.parse('carl'));
    const send = async (body: string, key: string): Promise<Message> => {
      const headers = { 'x-parley-id': id, 'idempotency-key': key };
      return (await (await carl.post('send', { to: '@bob', body }, headers)).json()) as Message;
    };
    const same = await Promise.all(Array.from({ length: 20 }, () => send('one', 'k')));
    expect(new Set(same.map((one) => one.id))).toEqual(new Set([id]));
    const others = await Promise.all(Array.from({ length: 20 }, (_, n) => send(`other ${n}`, `k${n}`)));
    for (const [n, other] of others.entries()) expect(other).toMatchObject({ from: 'carl', body: `other ${n}` });
    expect(new Set([id, ...others.map((one) => one.id)]).size).toBe(21);
    expect((await machine.peer.inbox()).map((one) => one.id).toSorted()).toEqual(
      [id, ...others.map((one) => one.id)].toSorted(),
    );
  });

  it('needs no second command if the answer comes at the second try', async () => {
    const machine = await remote('ours');
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    const sending = machine.start('parley', ['send', '@bob', 'once']);
    await until('the send', () => machine.wire.met > 0);
    machine.wire.fault = null;
    await sending.ended();
    expect(sending.run().out).toMatch(/^stored /);
    expect(await machine.peer.bodies()).toEqual(['once']);
  });

  it('tells what the relay can prove: that the reader has it', async () => {
    const machine = await remote('ours');
    const { id } = await machine.json<Message>('send', '@bob', 'hi', '--intent', 'question');
    expect(await machine.tells('trace', id)).toMatch(/at http:\S+\n {4}@bob {2}stored/);
    expect(await machine.peer.take(id)).toMatchObject({ body: 'hi', parley: { intent: 'question' } });
    expect(await machine.tells('trace', id)).toMatch(
      /settled {10}(?:\S+ )?\d\d:\d\d:\d\d {2}acknowledged, by relay, agent bob/,
    );
  });

  it('tells a sender that its message was fetched, and no more', async () => {
    const machine = await remote('ours');
    const sent = await machine.peer.send('@ann', 'hi');
    await machine.tells('drain');
    expect(await machine.peer.ask(`trace/${sent.id}`)).toMatchObject({
      copies: [{ mailbox: 'ann', state: 'settled', settledBy: { fetched: 'to the machine of its reader' } }],
    });
  });
});

describe('parley at a relay that gives ids of its own', () => {
  it('says both ids of a message that was queued', async () => {
    const machine = await remote('the original');
    await machine.wire.down();
    await machine.parley('send', '@bob', 'queued');
    const [letter] = await machine.json<Letter[]>('outbox');
    const ours = letter?.id ?? '';
    await machine.wire.up();
    await machine.tells('inbox');
    const [there] = await machine.peer.inbox();
    expect(there?.id).not.toBe(ours);
    for (const id of [ours, there?.id ?? '']) {
      expect(await machine.tells('trace', id)).toContain(
        `queued here as ${ours}; the relay gave it the id ${there?.id}\n`,
      );
    }
  });
});

describe('an agent at several relays', () => {
  it('says which it means', async () => {
    const one = await remote('the original');
    const other = await remote('the original');
    const joined = await one.parley('init', 'ann', '--url', other.wire.url, '--token', 'room');
    expect(joined.err).toContain('agent name "ann" is registered');
    const made = await one.json<{ invite: string; room: string; token: string }>(
      'room',
      'new',
      '--url',
      other.wire.url,
    );
    const { invite, room, token } = made;
    // With the room's token, which was shown, the same invite can be written again.
    const words = ['--url', other.wire.url, `--room=${room}`, `--token=${token}`] as const;
    expect((await one.json<{ invite: string }>('invite', ...words)).invite).toBe(invite);
    expect((await one.parley('join', invite, '--as', 'ann')).err).toContain('@ann is at several relays now');
    expect((await one.parley('inbox')).err).toMatch(/set PARLEY_RELAY to one of ann@/);
    await one.peer.send('@ann', 'here');
    const port = new URL(one.wire.url).port;
    const { out } = await one.run('parley', ['inbox', '--brief'], { PARLEY_RELAY: port });
    expect(out).toContain('here');
  });
});
