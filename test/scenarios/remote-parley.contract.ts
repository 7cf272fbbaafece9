import { describe, expect } from 'bun:test';
import type { it as Story } from 'bun:test';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import type { Message } from '../../src/core/message.ts';
import { until } from '../support/bch.ts';
import type { RemoteMachine } from '../support/remote.ts';

/** A letter in the outbox, as it is told. */
export interface Letter {
  id: string;
  key: string;
  state: string;
  body: string;
}

/** What `parley` does at a relay, whosever relay that is. `far` gives a machine whose agent ann is there, and bob is too. */
export function parleyAtARelay(
  title: string,
  remote: () => Promise<RemoteMachine>,
  it: typeof Story | typeof Story.skip,
): void {
  describe(title, () => {
    it('sends, and says only that the relay has it', async () => {
      const machine = await remote();
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
      const machine = await remote();
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
      const machine = await remote();
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
      const machine = await remote();
      const { id } = await machine.peer.send('@ann', 'noted?');
      expect(await machine.tells('ack', id.slice(0, 8))).toBe(`settled ${id.slice(0, 8)}: acknowledged\n`);
      expect(await machine.json<Message[]>('inbox')).toEqual([]);
    });

    it('cannot withdraw what a relay has, and says so', async () => {
      const machine = await remote();
      const { id } = await machine.json<Message>('send', '@bob', 'hi');
      const { err, code } = await machine.parley('withdraw', id);
      expect(err).toContain('a message that a relay has accepted cannot be withdrawn');
      expect(code).toBe(69);
      expect(await machine.peer.bodies()).toEqual(['hi']);
    });

    it('queues what cannot leave, in order, and sends it when the relay is back', async () => {
      const machine = await remote();
      await machine.wire.down();
      const one = await machine.parley('send', '@bob', 'one', '--key', 'k1');
      expect(one.err).toMatch(
        /^parley: queued as [0-9a-f]{8} \(key k1\): the relay \S+ cannot be reached \(nothing listens there\); your next command that reaches the relay sends it/,
      );
      expect(one.code).toBe(72);
      expect((await machine.parley('send', '@bob', 'two')).code).toBe(72);
      expect((await machine.parley('send', '@bob', 'one', '--key', 'k1')).code).toBe(72);
      expect((await machine.parley('send', '@bob', 'another', '--key', 'k1')).code).toBe(65);
      const { out, err, code } = await machine.parley('inbox');
      expect([out, code]).toEqual(['inbox empty\n', 0]);
      expect(err).toMatch(/cannot be reached \(nothing listens there\); only mail that was fetched earlier is shown/);
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

    it('knows a queued message by its id, before it is sent and after', async () => {
      const machine = await remote();
      await machine.wire.down();
      const { err } = await machine.parley('send', '@bob', 'one', '--key', 'k1');
      const [letter] = await machine.json<Letter[]>('outbox');
      const { id } = letter ?? { id: '' };
      expect(err).toStartWith(`parley: queued as ${id.slice(0, 8)} (key k1): `);
      expect(await machine.tells('outbox')).toStartWith(`${id.slice(0, 8)}  key k1  queued  to @bob`);
      expect((await machine.parley('trace', id)).err).toBe(
        `parley: ${id.slice(0, 8)} is in the outbox (queued), and not at the relay yet; see \`parley outbox\`\n`,
      );
      await machine.wire.up();
      await machine.tells('inbox');
      const [there] = await machine.peer.inbox();
      const trace = await machine.json<{ message: Message; queuedAs?: string }>('trace', id.slice(0, 8));
      expect(trace.message).toMatchObject({ id: there?.id, body: 'one' });
      expect(trace.queuedAs).toBe(there?.id === id ? undefined : id);
      expect((await machine.parley('outbox', 'drop', id)).err).toContain(
        `it was sent: parley trace ${there?.id.slice(0, 8)}\n`,
      );
      await machine.tells('send', '@bob', 'two', '--reply-to', id.slice(0, 8));
      expect(await machine.peer.inbox()).toMatchObject([{ body: 'one' }, { body: 'two', thread: there?.id }]);
    });

    it('sends and drops by id what is in the outbox', async () => {
      const machine = await remote();
      await machine.wire.down();
      await machine.parley('send', '@bob', 'one', '--key', 'k1');
      await machine.parley('send', '@bob', 'two');
      const [one, two] = await machine.json<Letter[]>('outbox');
      expect(two?.key).toBe(two?.id);
      await machine.tells('outbox', 'drop', two?.id.slice(0, 8) ?? '');
      await machine.wire.up();
      expect(await machine.tells('outbox', 'retry', one?.id.slice(0, 8) ?? '')).toMatch(/^stored /);
      expect(await machine.peer.bodies()).toEqual(['one']);
    });

    it('sends the whole outbox when told to, and says when it would be sent otherwise', async () => {
      const machine = await remote();
      await machine.wire.down();
      await machine.parley('send', '@bob', 'one');
      await machine.parley('send', '@bob', 'two');
      expect((await machine.parley('outbox')).err).toBe(
        'send it now: parley outbox send   or your next command that reaches the relay sends it\n',
      );
      const early = await machine.parley('outbox', 'send');
      expect([early.out, early.code]).toEqual(['', 76]);
      expect(early.err).toContain('cannot be reached');
      await machine.wire.up();
      expect(await machine.tells('outbox', 'send')).toBe(`sent 2 to ${machine.wire.url}, 0 left\n`);
      expect(await machine.tells('outbox', 'send')).toBe('outbox empty\n');
      expect(await machine.peer.bodies()).toEqual(['one', 'two']);
    });

    it('lists the mailbox at the relay among one’s own, also for who acts as another', async () => {
      const machine = await remote();
      await machine.parley('init', 'me');
      await machine.peer.send('@ann', 'hello');
      const me = { PARLEY_AGENT: 'me' };
      const mine = await machine.run('parley', ['agents', '--mine'], me);
      expect(mine).toEqual({ out: `@me  0 waiting  you\n@ann at ${machine.wire.url}  1 waiting\n`, err: '', code: 0 });
      expect((await machine.run('parley', ['agents'], me)).err).toContain(
        `you also have @ann at ${machine.wire.url}; use --as, or see \`parley agents --mine\`\n`,
      );
      expect((await machine.run('parley', ['outbox'], me)).out).toContain('for your mailboxes at relays: --as ann');
      await machine.wire.down();
      await machine.parley('send', '@bob', 'queued');
      const away = await machine.run('parley', ['agents', '--mine'], me);
      expect(away.out).toContain(`@ann at ${machine.wire.url}  1 in the outbox\n`);
      expect(away.err).toContain('cannot be reached');
      expect((await machine.run('parley', ['doctor'], me)).out).toMatch(
        /warn +mailbox ann +@ann is at \S+; 1 message waits in its outbox → `parley outbox send --as ann` sends it/,
      );
    });

    it('is said by doctor to be away, with what to do', async () => {
      const machine = await remote();
      await machine.wire.down();
      const { out } = await machine.parley('doctor');
      expect(out).toMatch(
        /warn +home relay +the relay \S+ cannot be reached .* → start the relay, or check the network/,
      );
      expect(out).not.toContain('see above');
    });

    it('keeps of the outbox what the relay refused, until it is dropped', async () => {
      const machine = await remote();
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
      const machine = await remote();
      await machine.wire.down();
      await machine.parley('send', '@bob', 'never mind', '--key', 'k1');
      expect(await machine.tells('outbox', 'drop', 'k1')).toBe('dropped k1\n');
      expect((await machine.parley('outbox', 'drop', 'k1')).code).toBe(66);
      await machine.wire.up();
      await machine.tells('inbox');
      expect(await machine.peer.bodies()).toEqual([]);
    });

    it('shows a message once that it could not settle there', async () => {
      const machine = await remote();
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
      const machine = await remote();
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
      const machine = await remote();
      await machine.peer.send('@ann', 'before');
      const watch = machine.start('parley', ['watch', '--json']);
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
      const machine = await remote();
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
      const machine = await remote();
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

    it('takes what watch --take has printed, and shows it to nobody again', async () => {
      const machine = await remote();
      await machine.peer.send('@ann', 'take this');
      const taking = machine.start('parley', ['watch', '--take']);
      await taking.says('take this');
      await taking.stop();
      expect(await machine.json<Message[]>('inbox')).toEqual([]);
    });

    it("keeps every identity's token in a file of its own [BC-C11, BC-C12]", async () => {
      const machine = await remote();
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
        'mailbox exists already',
      );
      expect(files.map((file) => (JSON.parse(readFileSync(file, 'utf8')) as { token: string }).token)).toEqual(tokens);
    });

    it('joins by an invite, once and again, and lives beside local mailboxes', async () => {
      const machine = await remote();
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
}

/** What it does besides at one that knows neither keys nor leases. */
export function parleyWithoutKeys(
  title: string,
  remote: () => Promise<RemoteMachine>,
  it: typeof Story | typeof Story.skip,
): void {
  describe(title, () => {
    it('asks before it sends again what may have arrived', async () => {
      const machine = await remote();
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
      const machine = await remote();
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
}

function outboxFiles(machine: RemoteMachine): string[] {
  const relays = `${machine.program.home}/.parley/relays`;
  return readdirSync(relays).flatMap((name) => {
    try {
      return readdirSync(`${relays}/${name}/outbox`);
    } catch {
      return [];
    }
  });
}
