import { afterAll, describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { Message } from '../../src/protocol/message.ts';
import { until } from '../support/bch.ts';
import { FarMachine } from '../support/far.ts';

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

interface Letter {
  key: string;
  state: string;
  body: string;
}

describe.each(Object.keys(RELAYS) as (keyof typeof RELAYS)[])('parley at a relay: %s', (kind) => {
  it('sends, and says only that the relay has it', async () => {
    const machine = await far(kind);
    expect(await machine.tells('send', '@bob', 'hi', '--urgent', '--ref', 'a.ts')).toMatch(
      new RegExp(`^stored [0-9a-f]{8} at ${machine.wire.url} for @bob\n$`),
    );
    expect(await machine.peer.inbox()).toMatchObject([
      { from: 'ann', to: '@bob', body: 'hi', priority: 'urgent', refs: ['a.ts'] },
    ]);
    const { err, code } = await machine.parley('send', '@nobody', 'x');
    expect(err).toBe('parley: unknown agent "nobody" — they must `bch init nobody` first\n');
    expect(code).toBe(68);
    const whoami = await machine.json<{ agent: string; home: string; url: string }>('whoami');
    expect(whoami).toMatchObject({ agent: 'ann', home: 'relay', url: machine.wire.url });
    expect(await machine.tells('agents')).toContain('@bob');
    expect(await machine.tells('outbox')).toBe('outbox empty\n');
  });

  it('sends once per key, also when it is repeated', async () => {
    const machine = await far(kind);
    const first = await machine.json<Message & { first: boolean }>('send', '@bob', 'hi', '--key', 'k ü');
    const again = await machine.json<Message & { first: boolean }>('send', '@bob', 'hi', '--key', 'k ü');
    expect([first.first, again.first]).toEqual([true, false]);
    expect(again.id).toBe(first.id);
    expect((await machine.parley('send', '@bob', 'other', '--key', 'k ü')).code).toBe(65);
    expect((await machine.parley('send', '@bob', 'hi', '--key', 'k ü', '--ref', 'a.ts')).code).toBe(65);
    const asking = ['send', '@bob', 'hm?', '--key', 'k2', '--intent', 'question', '--deadline', '30m'];
    const [asked, repeated] = [await machine.json<Message>(...asking), await machine.json<Message>(...asking)];
    expect(repeated.id).toBe(asked.id);
    expect((await machine.parley('send', '@bob', 'hm?', '--key', 'k2')).code).toBe(65);
    expect(await machine.peer.bodies()).toEqual(['hi', 'hm?']);
  });

  it('reads, takes, holds, answers and settles as on this machine', async () => {
    const machine = await far(kind);
    const question = await machine.peer.send('@ann', 'is it safe?');
    await machine.peer.send('@ann', 'and this one?');
    await machine.peer.send('@ann', 'for another repository', { scope: 'org/other' });
    const waiting = await machine.json<Message[]>('inbox');
    expect(waiting.map(({ body }) => body)).toEqual(['is it safe?', 'and this one?', 'for another repository']);
    expect(await machine.tells('read', question.id.slice(0, 8), '--peek')).toContain('is it safe?');
    await machine.tells('reply', question.id.slice(0, 8), 'yes, it is');
    expect(await machine.peer.inbox()).toMatchObject([
      { from: 'ann', to: '@bob', body: 'yes, it is', thread: question.id },
    ]);
    const held = await machine.json<Message>('take', '--lease', '10m');
    expect(held.body).toBe('and this one?');
    expect(await machine.tells('take')).toBe('nothing waits for you here\n');
    await machine.tells('release', held.id.slice(0, 8));
    expect(await machine.tells('ack', held.id.slice(0, 8))).toContain('acknowledged');
    const left = await machine.json<Message[]>('inbox');
    expect(left.map(({ body }) => body)).toEqual(['for another repository']);
    expect(await machine.tells('drain', '--match', 'github.com/org/other')).toContain('for another repository');
    const told = await machine.json<Message[]>('history');
    expect(told.map(({ body }) => body).toSorted()).toEqual(
      ['and this one?', 'for another repository', 'is it safe?', 'yes, it is'].toSorted(),
    );
    expect(await machine.tells('search', 'safe')).toContain('is it safe?');
    const trace = await machine.json<{ copies: { disposition: string; steps: { step: string }[] }[] }>(
      'trace',
      question.id,
    );
    expect(trace.copies).toMatchObject([{ disposition: 'responded' }]);
  });

  it('acknowledges what still waits there', async () => {
    const machine = await far(kind);
    const { id } = await machine.peer.send('@ann', 'noted?');
    expect(await machine.tells('ack', id.slice(0, 8))).toBe(`settled ${id.slice(0, 8)}: acknowledged\n`);
    expect(await machine.json<Message[]>('inbox')).toEqual([]);
  });

  it('cannot withdraw what a relay has, and says so', async () => {
    const machine = await far(kind);
    const { id } = await machine.json<Message>('send', '@bob', 'hi');
    const { err, code } = await machine.parley('withdraw', id);
    expect(err).toContain('a message that a relay has accepted cannot be withdrawn');
    expect(code).toBe(69);
    expect(await machine.peer.bodies()).toEqual(['hi']);
  });

  it('queues what cannot leave, in order, and sends it when the relay is back', async () => {
    const machine = await far(kind);
    await machine.wire.down();
    const one = await machine.parley('send', '@bob', 'one', '--key', 'k1');
    expect(one.err).toMatch(
      /^parley: queued as k1: the relay \S+ cannot be reached \(nothing listens there\); it is sent when the relay is back/,
    );
    expect(one.code).toBe(72);
    expect((await machine.parley('send', '@bob', 'two')).code).toBe(72);
    expect((await machine.parley('send', '@bob', 'one', '--key', 'k1')).code).toBe(72);
    expect((await machine.parley('send', '@bob', 'another', '--key', 'k1')).code).toBe(65);
    const { err, code } = await machine.parley('inbox');
    expect(err).toMatch(/cannot be reached/);
    expect(code).toBe(76);
    const letters = await machine.json<Letter[]>('outbox');
    expect(letters.map(({ state, body }) => [state, body])).toEqual([
      ['queued', 'one'],
      ['queued', 'two'],
    ]);
    await machine.wire.up();
    await machine.tells('send', '@bob', 'three');
    expect(await machine.peer.bodies()).toEqual(['one', 'two', 'three']);
    expect(await machine.json<Letter[]>('outbox')).toEqual([]);
    // The key is known from the outbox on.
    expect(await machine.tells('send', '@bob', 'one', '--key', 'k1')).toContain('already stored under this key');
  });

  it('keeps of the outbox what the relay refused, until it is dropped', async () => {
    const machine = await far(kind);
    await machine.wire.down();
    await machine.parley('send', '@nobody', 'lost?', '--key', 'k1');
    await machine.wire.up();
    await machine.tells('inbox');
    const [letter] = await machine.json<(Letter & { why: string })[]>('outbox');
    expect(letter).toMatchObject({
      key: 'k1',
      state: 'refused',
      why: expect.stringContaining('unknown agent "nobody"') as string,
    });
    expect((await machine.parley('outbox', 'retry', 'k1')).code).toBe(68);
    expect(await machine.json<Letter[]>('outbox')).toEqual([]);
  });

  it('drops a letter that was never sent', async () => {
    const machine = await far(kind);
    await machine.wire.down();
    await machine.parley('send', '@bob', 'never mind', '--key', 'k1');
    expect(await machine.tells('outbox', 'drop', 'k1')).toBe('dropped k1\n');
    expect((await machine.parley('outbox', 'drop', 'k1')).code).toBe(66);
    await machine.wire.up();
    await machine.tells('inbox');
    expect(await machine.peer.bodies()).toEqual([]);
  });

  it('shows a message once that it could not settle there', async () => {
    const machine = await far(kind);
    await machine.peer.send('@ann', 'precious');
    machine.wire.fault = { at: /\/v1\/(settle|take)/, kind: 'answer lost' };
    expect(await machine.tells('drain')).toContain('precious');
    machine.wire.fault = { at: /\/v1\/(settle|take)/, kind: 'html' };
    expect(await machine.tells('drain')).toBe('nothing waits for you here\n');
    machine.wire.fault = null;
    expect(await machine.json<Message[]>('inbox')).toEqual([]);
    expect(await machine.tells('drain')).toBe('nothing waits for you here\n');
  });

  it('loses nothing and shows nothing twice however the reader is killed on the way', async () => {
    const machine = await far(kind);
    const sent = await Promise.all(Array.from({ length: 6 }, (_, at) => machine.peer.send('@ann', `m${at}`)));
    const shown: string[] = [];
    for (const at of [/\/v1\/lease|take/, /\/v1\/settle|take/, /\/v1\/inbox/]) {
      const before = machine.wire.met;
      machine.wire.fault = { at, kind: 'stalled' };
      const reader = machine.start('parley', ['drain', '--limit', '1', '--json']);
      await until('the fault', () => machine.wire.met > before);
      await reader.stop('SIGKILL');
      machine.wire.fault = null;
      shown.push(...(await machine.json<Message[]>('drain', '--limit', '1')).map(({ id }) => id));
    }
    const rest = await machine.json<Message[]>('drain');
    const all = [...shown, ...rest.map(({ id }) => id)];
    expect(all.toSorted()).toEqual(sent.map(({ id }) => id).toSorted());
  });

  it('watches: what waited, what comes, and what comes after the stream broke, each once [BC-C10]', async () => {
    const machine = await far(kind);
    await machine.peer.send('@ann', 'before');
    const watch = machine.start('parley', ['watch', '--peek', '--json']);
    await watch.says('before');
    await machine.peer.send('@ann', 'while');
    await watch.says('while');
    await machine.wire.down();
    await watch.complains('it is tried again');
    await machine.peer.send('@ann', 'meanwhile');
    await machine.wire.up();
    await watch.says('meanwhile');
    const { out } = await watch.stop();
    expect(out.match(/"(before|while|meanwhile)"/g)).toEqual(['"before"', '"while"', '"meanwhile"']);
    expect((await machine.json<Message[]>('inbox')).length).toBe(3);
  });

  it('waits for a relay that is not there yet, and sends what is queued when it comes', async () => {
    const machine = await far(kind);
    await machine.wire.down();
    await machine.parley('send', '@bob', 'queued');
    const watch = machine.start('parley', ['watch']);
    await watch.complains('cannot be reached (nothing listens there); it is tried again');
    await machine.peer.send('@ann', 'at last');
    await machine.wire.up();
    await watch.says('at last');
    await until('an empty outbox', () => outboxFiles(machine).length === 0);
    await watch.stop();
    expect(await machine.peer.bodies()).toEqual(['queued']);
  });

  it('settles what watch --exec has done, and gives back what it has not', async () => {
    const machine = await far(kind);
    await machine.peer.send('@ann', 'work');
    const failing = machine.start('parley', ['watch', '--exec', 'false']);
    await failing.complains('comes back');
    await failing.stop();
    expect((await machine.json<Message[]>('inbox')).map(({ body }) => body)).toEqual(['work']);
    const working = machine.start('parley', ['watch', '--exec', 'echo "ran on {{body}}"']);
    await working.says('ran on work');
    await working.stop();
    expect(await machine.json<Message[]>('inbox')).toEqual([]);
  });

  it("keeps every identity's token in a file of its own [BC-C11, BC-C12]", async () => {
    const machine = await far(kind);
    await machine.tells('init', 'carl', '--url', `${machine.wire.url}/`, '--token', 'room');
    await machine.peer.send('@ann', 'for ann');
    await machine.peer.send('@carl', 'for carl');
    expect(await machine.tells('drain')).toContain('for ann');
    expect(await machine.tells('drain', '--as', 'carl')).toContain('for carl');
    const relays = `${machine.program.home}/.parley/relays`;
    const files = readdirSync(relays).map((name) => `${relays}/${name}/relay.json`);
    expect(files).toHaveLength(2);
    for (const file of files) expect(statSync(file).mode & 0o777).toBe(0o600);
    const tokens = files.map((file) => (JSON.parse(readFileSync(file, 'utf8')) as { token: string }).token);
    expect(new Set(tokens).size).toBe(2);
    expect(await machine.tells('init', 'ann', '--url', machine.wire.url, '--token', 'room')).toContain(
      'you were here already',
    );
    expect(files.map((file) => (JSON.parse(readFileSync(file, 'utf8')) as { token: string }).token)).toEqual(tokens);
  });

  it('joins by an invite, once and again, and lives beside local mailboxes', async () => {
    const machine = await far(kind);
    const { invite } = await machine.json<{ invite: string }>('invite', '--token', 'room', '--channel', '#dev');
    expect(await machine.tells('join', invite, '--as', 'carl')).toMatch(/^joined \S+ as @carl\nsubscribed to #dev\n/);
    await machine.tells('join', invite, '--as', 'carl');
    await machine.peer.send('#dev', 'hello all');
    // Chatter in a channel waits quietly for an agent with a policy.
    expect((await machine.json<Message[]>('inbox', '--as', 'carl')).map(({ body }) => body)).toEqual(['hello all']);
    await machine.tells('init', 'local');
    await machine.tells('send', '@local%parley', 'across');
    expect(await machine.tells('drain', '--as', 'local')).toContain('across');
    expect((await machine.parley('init', 'ann')).code).toBe(73);
    expect((await machine.parley('join', invite, '--as', 'local')).code).toBe(73);
    const { room, invite: other } = await machine.json<{ room: string; invite: string }>('room', 'new', '#x');
    await machine.tells('join', other, '--as', 'dora');
    expect((await machine.json<{ url: string }>('whoami', '--as', 'dora')).url).toBe(machine.wire.url);
    expect(room).toMatch(/^[A-Za-z0-9_-]{8}$/);
  });
});

describe('parley at a relay that knows no keys', () => {
  it('asks before it sends again what may have arrived', async () => {
    const machine = await far('the original');
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    const lost = await machine.parley('send', '@bob', 'once', '--key', 'k1');
    expect(lost.err).toContain('ask its reader, then `parley outbox retry k1` or `parley outbox drop k1`');
    expect(lost.code).toBe(75);
    machine.wire.fault = null;
    await machine.tells('inbox');
    expect((await machine.parley('send', '@bob', 'once', '--key', 'k1')).code).toBe(75);
    expect(await machine.json<Letter[]>('outbox')).toMatchObject([{ key: 'k1', state: 'unknown' }]);
    expect(await machine.peer.bodies()).toEqual(['once']);
    expect(await machine.tells('outbox', 'retry', 'k1')).toMatch(/^stored /);
    expect(await machine.peer.bodies()).toEqual(['once', 'once']);
  });

  it('does not know what became of a letter whose sender was killed', async () => {
    const machine = await far('the original');
    machine.wire.fault = { at: /\/v1\/send/, kind: 'stalled' };
    const sender = machine.start('parley', ['send', '@bob', 'once', '--key', 'k1']);
    await until('the send', () => machine.wire.met > 0);
    expect((await machine.json<Letter[]>('outbox')).map(({ state }) => state)).toEqual(['sending']);
    await sender.stop('SIGKILL');
    machine.wire.fault = null;
    await machine.tells('inbox');
    expect((await machine.json<Letter[]>('outbox')).map(({ state }) => state)).toEqual(['unknown']);
    await machine.tells('outbox', 'drop', 'k1');
    expect(await machine.peer.bodies()).toEqual([]);
  });
});

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

function outboxFiles(machine: FarMachine): string[] {
  const relays = `${machine.program.home}/.parley/relays`;
  return readdirSync(relays).flatMap((name) => {
    try {
      return readdirSync(`${relays}/${name}/outbox`);
    } catch {
      return [];
    }
  });
}
