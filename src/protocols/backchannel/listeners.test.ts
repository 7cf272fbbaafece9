import { timesOf } from './relay-deps.ts';
import type { RelaySettings } from './relay-deps.ts';
import { afterEach, describe, expect, it } from 'bun:test';
import { request, TestRelay } from '../../../test/support/relay-app.ts';
import { MessageId } from '../../core/names.ts';
import type { Mail, WaitingCopy } from '../../core/ports/journal.ts';

/** A stream, read as the original's client reads it: split at empty lines, `data: ` with its space, JSON. */
class Reader {
  #text = '';
  readonly #reader: { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>; cancel(): Promise<void> };
  readonly #decoder = new TextDecoder();

  constructor(readonly response: Response) {
    if (!response.body) throw new Error('a stream has a body');
    this.#reader = response.body.getReader();
    open.push(this);
  }

  /** The next block of lines, without the empty line at its end; null at the end of the stream. */
  async block(): Promise<string | null> {
    for (;;) {
      const at = this.#text.indexOf('\n\n');
      if (at !== -1) {
        const block = this.#text.slice(0, at);
        this.#text = this.#text.slice(at + 2);
        return block;
      }
      const { done, value } = await this.#reader.read();
      if (done) return null;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  /** The next message's body. */
  async message(): Promise<string> {
    for (;;) {
      const block = await this.block();
      if (block === null) throw new Error('the stream has ended');
      const data = block.split('\n').filter((line) => line.startsWith('data: '));
      if (data.length > 0) return (JSON.parse(data.map((line) => line.slice(6)).join('\n')) as { body: string }).body;
    }
  }

  async messages(count: number): Promise<string[]> {
    const bodies: string[] = [];
    while (bodies.length < count) bodies.push(await this.message());
    return bodies;
  }

  close(): Promise<void> {
    return this.#reader.cancel();
  }
}

/** Until everything that needs no clock is done. */
const idle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let open: Reader[] = [];
afterEach(async () => {
  for (const reader of open) await reader.close();
  open = [];
});

async function aListener(settings: Partial<RelaySettings> = {}) {
  const relay = new TestRelay(settings);
  const [alice, bob] = await relay.agents('alice', 'bob');
  const send = async (body: string, to = '@bob'): Promise<string> =>
    ((await relay.ask('POST', '/v1/send', { token: alice, body: { to, body } })).value as { id: string }).id;
  const take = (id: string) => relay.ask('POST', '/v1/take', { token: bob, body: { id } });
  const listen = async (headers: Record<string, string> = {}): Promise<Reader> =>
    new Reader(await relay.app.fetch(request('http://x/v1/events/bob', 'GET', { token: bob, headers })));
  return { relay, alice, bob, send, take, listen };
}

describe('the event stream', () => {
  it('is a text/event-stream for its owner only [BC-14, BC-15, BC-B5.16, BC-B6.4]', async () => {
    const { relay, alice, listen } = await aListener();
    const { headers, status } = (await listen()).response;
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/event-stream');
    expect(headers.get('cache-control')).toBe('no-cache');
    const other = await relay.ask('GET', '/v1/events/bob', { token: alice });
    expect([other.status, other.value]).toEqual([403, { error: 'token is for "alice", not "bob"' }]);
  });

  it('replays everything unread, oldest first, then brings what arrives [BC-16, BC-B6.8]', async () => {
    const { send, listen } = await aListener();
    for (let n = 0; n < 100; n += 1) await send(`old ${n}`);
    const reader = await listen();
    expect(await reader.messages(100)).toEqual(Array.from({ length: 100 }, (_, n) => `old ${n}`));
    const next = reader.message();
    await send('new');
    expect(await next).toBe('new');
  });

  it('writes one data line of JSON per message and nothing else but comments and ids [BC-B6.1, BC-B6.5]', async () => {
    const { relay, bob, send, listen } = await aListener();
    await send('two\nlines\r\nand \u2028 more');
    const reader = await listen();
    expect(await reader.block()).toMatch(/^: /);
    const block = (await reader.block()) ?? '';
    const inbox = await relay.ask('GET', '/v1/inbox/bob', { token: bob });
    const [message] = inbox.value as unknown[];
    expect(block).toMatch(/^id: \d+\ndata: \{[^\n]*\}$/);
    expect(block).not.toContain('\r');
    expect(block.split('\n')[1]).toBe(`data: ${JSON.stringify(message)}`);
  });

  it('claims nothing, takes nothing back, and comes again on the next connection [BC-16, BC-B6.9]', async () => {
    const { send, take, listen } = await aListener();
    const [first, second] = [await send('first'), await send('second')];
    const reader = await listen();
    expect(await reader.messages(2)).toEqual(['first', 'second']);
    // Somebody else takes one: nothing is said of that, and the stream goes on.
    await take(first);
    const next = reader.block();
    await send('third');
    expect(await next).toContain('"third"');
    await reader.close();
    // The client dies between the event and the take: what it did not take is there again.
    const again = await listen();
    expect(await again.messages(2)).toEqual(['second', 'third']);
    expect((await take(second)).value).toMatchObject({ message: { body: 'second' } });
  });

  it('sends a message once per connection, also when it arrives while the old ones are read [BC-B6.9]', async () => {
    const { relay, send, listen } = await aListener();
    for (let n = 0; n < 20; n += 1) await send(`m${n}`);
    const { journal } = relay.home();
    const waiting = journal.waitingCopies.bind(journal);
    let arrives = 20;
    journal.waitingCopies = async (...asked) => {
      // Between the look and its answer more comes in.
      const page = await waiting(...asked);
      if (arrives < 40) await send(`m${arrives++}`);
      return page;
    };
    const reader = await listen();
    const got: string[] = [];
    while (got.at(-1) !== 'the end') {
      got.push(await reader.message());
      if (got.length === 25) await send('the end');
    }
    expect(got).toEqual([
      ...Array.from({ length: arrives }, (_, n) => `m${n}`).filter((m) => got.includes(m)),
      'the end',
    ]);
    expect(new Set(got).size).toBe(got.length);
    expect(got).toContain('m19');
  });

  it('gives each of several listeners everything', async () => {
    const { send, listen } = await aListener();
    const readers = [await listen(), await listen(), await listen()];
    const heard = readers.map((reader) => reader.messages(2));
    await send('one');
    await send('two');
    expect(await Promise.all(heard)).toEqual([
      ['one', 'two'],
      ['one', 'two'],
      ['one', 'two'],
    ]);
  });

  it('goes on after the last id that its reader has seen, and begins again after one that was never given', async () => {
    const { send, listen } = await aListener();
    for (const body of ['one', 'two', 'three']) await send(body);
    const reader = await listen();
    await reader.block();
    const [, seen = ''] = /^id: (\d+)/.exec((await reader.block()) ?? '') ?? [];
    expect(await (await listen({ 'last-event-id': seen })).message()).toBe('two');
    expect(await (await listen({ 'last-event-id': '999999' })).message()).toBe('one');
    expect(await (await listen({ 'last-event-id': 'nonsense' })).message()).toBe('one');
  });

  it.each(['release', 'time'])('tells a reader that comes back what came back meanwhile, by %s', async (how) => {
    const { relay, bob, send, listen } = await aListener();
    const ask = (path: string, body: unknown) => relay.ask('POST', path, { token: bob, body });
    await send('told');
    const first = await send('on loan');
    const { value } = await ask('/v1/lease', { ids: [first], ms: 1000 });
    await send('last');
    const reader = await listen();
    await reader.block();
    await reader.block();
    const [, seen = ''] = /^id: (\d+)/.exec((await reader.block()) ?? '') ?? [];
    await reader.close();
    const { lease } = value as { lease: string };
    if (how === 'release') await ask('/v1/settle', { lease, ids: [first], outcome: 'release' });
    relay.aheadMs = 2000;
    await relay.home().mailboxes.heal();
    await send('new');
    expect(await (await listen({ 'last-event-id': seen })).messages(2)).toEqual(['on loan', 'new']);
  });

  it('is kept alive by a comment every 25 s, from one clock for all [BC-16, BC-B6.1, BC-B6.6]', async () => {
    expect(timesOf(new TestRelay().deps.settings).keepaliveMs).toBe(25_000);
    const { listen } = await aListener({ times: { keepaliveMs: 100 } });
    const readers = [await listen(), await listen()];
    for (const reader of readers) {
      const blocks = [await reader.block(), await reader.block(), await reader.block()];
      expect(blocks).toEqual([': listening', ': keepalive', ': keepalive']);
    }
  });

  it('closes its watch and its log entry with its reader', async () => {
    const { relay, listen } = await aListener();
    const { mailboxes } = relay.home();
    const watch = mailboxes.watch.bind(mailboxes);
    let watching = 0;
    mailboxes.watch = (...asked) => {
      watching += 1;
      const one = watch(...asked);
      return {
        close() {
          watching -= 1;
          one.close();
        },
      };
    };
    const reader = await listen();
    await reader.block();
    expect(watching).toBe(1);
    await reader.close();
    expect(watching).toBe(0);
    const events = relay.logged.map(({ event }) => event).filter((event) => event.startsWith('listener'));
    expect(events).toEqual(['listener_open', 'listener_closed']);
  });

  it('ends when the store fails, and says so in the log: its reader comes back', async () => {
    const { relay, listen } = await aListener();
    relay.home().journal.waitingCopies = () => Promise.reject(new Error('the disk is gone'));
    const reader = await listen();
    await reader.block();
    expect(await reader.block()).toBeNull();
    expect(relay.logged.at(-1)).toMatchObject({ event: 'listener_closed', facts: { error: 'the disk is gone' } });
  });
});

describe('a listener whose spool hands it the mail', () => {
  /** The arrivals are the test's own; the ledger tells how often it was asked. */
  async function ringing() {
    const { relay, bob } = await aListener();
    const { mailboxes, journal } = relay.home();
    let ring: (mail?: Mail) => void = () => {};
    mailboxes.watch = (_mailbox, onArrival) => {
      ring = onArrival;
      return { close() {} };
    };
    let looks = 0;
    let stored: Mail[] = [];
    journal.waitingCopies = async (_mailbox, after, limit) => {
      looks += 1;
      return stored.filter(({ seq }) => seq > after).slice(0, limit) as WaitingCopy[];
    };
    const aMail = (seq: number, size = 0): Mail => {
      const mail = { seq, text: JSON.stringify({ id: MessageId.parse(`m${seq}`), body: `${seq}${'x'.repeat(size)}` }) };
      stored.push(mail);
      return mail;
    };
    const reader = new Reader(await relay.app.fetch(request('http://x/v1/events/bob', 'GET', { token: bob })));
    return {
      reader,
      aMail,
      ring: (mail?: Mail) => ring(mail),
      looks: () => looks,
      forget: (seq: number) => {
        stored = stored.filter((mail) => mail.seq !== seq);
      },
    };
  }

  it('passes it on without reading it again [BC-B6.8, BC-B6.9]', async () => {
    const { reader, aMail, ring, looks } = await ringing();
    ring(aMail(1));
    expect(await reader.message()).toBe('1');
    const next = reader.messages(3);
    await idle();
    const before = looks();
    for (const seq of [2, 3, 4]) ring(aMail(seq));
    expect(await next).toEqual(['2', '3', '4']);
    expect(looks()).toBe(before);
  });

  it('is told of a message that comes back from a reader’s hand, unless it had it before [BC-B6.9]', async () => {
    const { reader, aMail, ring, forget } = await ringing();
    const held = aMail(1);
    forget(1);
    const second = aMail(2);
    expect(await reader.message()).toBe('2');
    const next = reader.messages(2);
    await idle();
    ring(second);
    ring(held);
    ring(held);
    ring(aMail(3));
    expect(await next).toEqual(['1', '3']);
  });

  it('reads a full inbox no faster than its reader takes it [BC-C15]', async () => {
    const { reader, aMail, looks } = await ringing();
    for (let seq = 1; seq <= 2000; seq += 1) aMail(seq, 10_000);
    await reader.message();
    await idle();
    expect(looks()).toBeLessThan(5);
  });

  it('keeps a bounded queue for a slow reader, who loses nothing and gets nothing twice [BC-C13, BC-C15]', async () => {
    const { reader, aMail, ring, looks } = await ringing();
    await reader.block();
    const first = reader.message();
    await idle();
    const count = 2000;
    // A reader that takes one and then pauses: 20 MB arrive meanwhile.
    for (let seq = 1; seq <= count; seq += 1) ring(aMail(seq, 10_000));
    const before = looks();
    expect(Number.parseInt(await first, 10)).toBe(1);
    const rest = (await reader.messages(count - 1)).map((body) => Number.parseInt(body, 10));
    expect(rest).toEqual(Array.from({ length: count - 1 }, (_, n) => n + 2));
    // Most of them were not kept, but read again page by page.
    expect(looks() - before).toBeGreaterThan(20);
  });
});
