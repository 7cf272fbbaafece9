import { afterAll, afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { Machine, until } from '../support/bch.ts';
import type { Running } from '../support/bch.ts';
import { HostClient } from '../support/host-client.ts';
import { ChatDeliver } from '../../src/protocols/c2a/shapes.ts';
import type { Program } from '../support/program.ts';
import { PARLEY } from '../support/program.ts';

/** The real program as a host on a home of its own, reached in one of three ways. */
class House {
  readonly machine = new Machine();
  readonly program: Program = this.machine.program;
  readonly clients: HostClient[] = [];
  #running: Running | undefined;

  constructor(readonly transport: Transport) {}

  get home(): string {
    return `${this.program.home}/.parley`;
  }

  /** A connection. On stdio each has a host of its own, on the same home. */
  async connect(): Promise<HostClient> {
    const client = await this.#connect();
    this.clients.push(client);
    return client;
  }

  async #connect(): Promise<HostClient> {
    if (this.transport === 'stdio') return HostClient.onStdio([PARLEY, 'host', '--stdio'], this.program.env);
    const out = await this.started();
    if (this.transport === 'Unix socket') return HostClient.onSocket(`${this.home}/host/socket`);
    const [, url = ''] = /(ws:\/\/\S+?),/.exec(out) ?? [];
    return HostClient.onWebSocket(url, readFileSync(`${this.home}/host/token`, 'utf8').trim());
  }

  /** What the host said when it began to listen. */
  async started(): Promise<string> {
    this.#running ??= this.machine.start('parley', ['host', '--ws', '0']);
    const running = this.#running;
    await until('the host', () => /also on .*\n/.test(running.out) || running.child.exitCode !== null);
    return running.out;
  }

  /** Ends the host as hard as can be. */
  async kill(): Promise<void> {
    this.#running?.child.kill('SIGKILL');
    await this.#running?.ended();
    this.#running = undefined;
  }

  async end(): Promise<void> {
    for (const client of this.clients) client.close();
    if (this.#running) expect((await this.#running.stop()).code).toBe(0);
  }
}

const TRANSPORTS = ['stdio', 'Unix socket', 'WebSocket'] as const;
type Transport = (typeof TRANSPORTS)[number];

const transcripts = new Map<Transport, unknown[]>();

/** What differs between any two runs: ids, times, tokens. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value)
      .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
      .replaceAll(/\([0-9a-f]{8}\)/g, '(<id>)')
      .replaceAll(/"token":"[^"]*"/g, '"token":"<token>"')
      .replaceAll(/"(ageMs|deadlineMs)":\d+/g, '"$1":0'),
  ) as unknown;
}

describe.each(TRANSPORTS)('a harness on %s', (transport) => {
  let house = new House(transport);
  afterEach(async () => {
    await house.end();
    house = new House(transport);
  });

  it('gets a message, acknowledges it, pulls its thread, answers under a key, and resumes where it was [C2A-31] [C2A-12] [C2A-78]', async () => {
    await house.program.init('alice', 'bob');
    const first = await (await house.connect()).initialize();
    const bound = await first.done<{ token: string; warnings: string[] }>('session/bind', {
      sessionId: 'one',
      identities: ['bob'],
    });
    expect(bound.warnings).toEqual([]);
    await house.program.run(['send', '@bob', 'Is the deploy blocked?'], { as: 'alice' });

    const offered = await first.event();
    expect(ChatDeliver.safeParse(offered.params)).toMatchObject({ success: true });
    expect(offered.params).toMatchObject({
      sessionId: 'one',
      attention: { policy: 'must_respond', reason: 'direct_message' },
      content: [{ type: 'text', text: 'Is the deploy blocked?' }],
      reliability: { attempt: 1 },
    });
    const [, event = ''] = String(offered.params['prompt']).split(/^(?=C2A EVENT$)/m);
    expect(event).toStartWith(`C2A EVENT\nevent_id: ${String(offered.params['eventId'])}\nconversation: dm `);
    expect(event).toContain('\n\nMESSAGE\nIs the deploy blocked?\n');

    // It goes without having accepted it: anyone who takes the session up gets the same event again.
    first.close();
    const second = await (await house.connect()).initialize();
    expect((await second.ask('session/bind', { sessionId: 'one', identities: ['bob'] })).error).toMatchObject({
      code: -32001,
    });
    await second.done('session/bind', { sessionId: 'one', identities: ['bob'], token: bound.token });
    const again = await second.event();
    const { eventId } = again.params as { eventId: string };
    expect(eventId).toBe(String(offered.params['eventId']));
    expect(again.params['reliability']).toMatchObject({
      attempt: 2,
      idempotencyKey: (offered.params['reliability'] as { idempotencyKey: string }).idempotencyKey,
    });
    second.ack(again);

    const thread = await second.done<{ messages: { text: string }[] }>('tools/call', {
      name: 'chat.read_thread',
      arguments: { eventId },
    });
    expect(thread.messages.map(({ text }) => text)).toEqual(['Is the deploy blocked?']);
    const reply = {
      target: '@alice',
      text: 'No, CI is red: https://ci.example/42',
      inReplyTo: eventId,
      idempotencyKey: 'reply-1',
      visibility: 'dm',
      directedness: 'to_me',
    };
    const sent = await second.done<{ eventId: string; first: boolean }>('chat.send_message', reply);
    const repeated = await second.done<{ eventId: string; first: boolean }>('chat.send_message', reply);
    expect(repeated).toMatchObject({ eventId: sent.eventId, first: false });
    expect((await second.ask('chat.send_message', { ...reply, text: 'Yes.' })).error?.code).toBe(-32006);
    const inbox = await house.program.json<{ messages: { body: string }[] }>(['inbox'], { as: 'alice' });
    expect(JSON.stringify(inbox)).toContain('CI is red');
    expect(JSON.stringify(inbox)).not.toContain('Yes.');

    // Nothing that was accepted comes a third time; what comes next does.
    second.close();
    await house.kill();
    const third = await (await house.connect()).initialize();
    await third.done('session/bind', { sessionId: 'one', identities: ['bob'], token: bound.token });
    await house.program.run(['send', '@bob', 'Then tell me when it is green.'], { as: 'alice' });
    const next = await third.event();
    expect(next.params['content']).toEqual([{ type: 'text', text: 'Then tell me when it is green.' }]);
    third.ack(next);
    const listed = await third.done<{ events: unknown[] }>('chat.list_events', {});
    transcripts.set(transport, plain([first.all, second.all, third.all, listed]) as unknown[]);
  });

  it('and a surface are two roles on two connections: what is posted at one comes to the other', async () => {
    await house.program.init('bob');
    const harness = await (await house.connect()).initialize();
    await harness.done('session/bind', { sessionId: 'one', identities: ['bob'] });
    const surface = await (await house.connect()).initialize({ role: 'surface' });
    expect((await surface.ask('chat.list_events', {})).error?.code).toBe(-32001);
    await surface.done('surface/bind', { platform: 'slack', workspaceId: 'T123' });
    const post = {
      messageId: '1748890000.000100',
      conversation: { id: 'D1', kind: 'dm' },
      author: { id: 'U123', kind: 'human', displayName: 'Will' },
      recipient: 'bob',
      content: [{ type: 'text', text: 'Can you check whether the deploy is blocked?' }],
      attention: { policy: 'must_not_respond' },
    };
    const { eventId } = await surface.done<{ eventId: string }>('surface/post', post);
    expect(await surface.done('surface/post', post)).toMatchObject({ eventId, first: false });
    const event = await harness.event();
    harness.ack(event);
    expect(event.params).toMatchObject({
      eventId,
      source: { platform: 'slack' },
      author: { kind: 'human', displayName: 'Will' },
      attention: { policy: 'must_respond' },
    });
  });

  it('has two sessions on one connection, and each gets its own events only [C2A-5]', async () => {
    await house.program.init('alice', 'bob', 'carol');
    const harness = await (await house.connect()).initialize();
    await harness.done('session/bind', { sessionId: 'b', identities: ['bob'] });
    await harness.done('session/bind', { sessionId: 'c', identities: ['carol'] });
    expect((await harness.ask('chat.list_events', {})).error?.message).toContain('sessionId');
    expect((await harness.ask('surface/bind', { platform: 'x', workspaceId: 'y' })).error?.code).toBe(-32001);
    await house.program.run(['send', '@carol', 'for carol'], { as: 'alice' });
    await house.program.run(['send', '@bob', 'for bob'], { as: 'alice' });
    const events = [await harness.event(), await harness.event()];
    for (const event of events) harness.ack(event);
    const told = events.map(({ params }) => [params['sessionId'], (params['content'] as { text: string }[])[0]?.text]);
    expect(told.toSorted((a, b) => String(a[0]).localeCompare(String(b[0])))).toEqual([
      ['b', 'for bob'],
      ['c', 'for carol'],
    ]);
    const seen = await harness.done<{ events: { text: string }[] }>('chat.list_events', { sessionId: 'b' });
    expect(seen.events.map(({ text }) => text)).toEqual(['for bob']);
  });
});

describe('the host', () => {
  const house = new House('Unix socket');
  afterAll(() => house.end());

  it('is one per socket, keeps what it has to itself, lets no page in, and is no obstacle when it was killed', async () => {
    await house.program.init('bob');
    const said = await house.started();
    const [, url = ''] = /ws:(\/\/\S+?),/.exec(said) ?? [];
    for (const name of ['socket', 'token']) expect(statSync(`${house.home}/host/${name}`).mode & 0o777).toBe(0o600);
    expect(statSync(`${house.home}/host`).mode & 0o777).toBe(0o700);
    const token = readFileSync(`${house.home}/host/token`, 'utf8').trim();
    expect(said).not.toContain(token);
    const page = { authorization: `Bearer ${token}`, origin: 'https://evil.example' };
    expect((await fetch(`http:${url}`, { headers: page })).status).toBe(403);

    const status = await house.program.json<{ running: object[] }>(['status']);
    const door = { name: 'host', address: `${house.home}/host/socket`, answers: true };
    expect(status.running).toMatchObject([{ what: 'host', doors: [door] }]);
    const second = await house.program.run(['host']);
    expect(second).toMatchObject({ code: 75, out: '' });
    expect(second.err).toMatch(/a host listens on \S+\/host\/socket already \(pid \d+, since /);
    await house.kill();
    expect(existsSync(`${house.home}/host/socket`)).toBe(true);
    expect(await house.started()).toContain('host listening on');
    expect(readFileSync(`${house.home}/host/token`, 'utf8').trim()).toBe(token);
    const client = await (await house.connect()).initialize();
    expect(await client.done('ping', {})).toEqual({});
  });

  it('runs inside the daemon, and is seen and ended there', async () => {
    const machine = new Machine();
    const up = await machine.program.run(['up', '--with', 'host', '--host-ws', '0', '--detach']);
    expect(up).toMatchObject({ code: 0, err: '' });
    const socket = `${machine.program.home}/.parley/host/socket`;
    const status = await machine.program.json<{ running: { doors: object[] }[] }>(['status']);
    expect(status.running[0]?.doors).toMatchObject([
      { name: 'host', address: socket, answers: true },
      { name: 'follow' },
    ]);
    const client = await (await HostClient.onSocket(socket)).initialize();
    expect(await client.done('ping', {})).toEqual({});
    expect((await machine.program.run(['down'])).code).toBe(0);
    expect(client.isClosed).toBe(true);
    expect(existsSync(socket)).toBe(false);
  });

  it('keeps the order of a conversation, no matter who goes and comes meanwhile, and loses nothing when it is killed [C2A-7] [C2A-33]', async () => {
    const crowd = new House('Unix socket');
    await crowd.program.init('bob');
    const surface = await (await crowd.connect()).initialize({ role: 'surface' });
    await surface.done('surface/bind', { platform: 'slack', workspaceId: 'T1' });
    const count = 100;
    const posts = Array.from({ length: count }, (_, at) =>
      surface.done('surface/post', {
        messageId: `m${at}`,
        conversation: { id: 'D1', kind: 'dm' },
        author: { id: 'U1', kind: 'human' },
        recipient: 'bob',
        content: [{ type: 'text', text: `May I merge number ${at}?` }],
        // Shown at once: nothing of it is put together.
        intent: 'approval',
        sequence: at + 1,
      }),
    );
    await Promise.all(posts);
    const accepted = new Map<unknown, unknown>();
    let token: string | undefined;
    for (let round = 0; accepted.size < count; round += 1) {
      const harness = await (await crowd.connect()).initialize();
      const bind = { sessionId: 'one', identities: ['bob'], ...(token !== undefined && { token }) };
      ({ token } = await harness.done<{ token: string }>('session/bind', bind));
      const upTo = round < 4 ? Math.min(count, accepted.size + 20) : count;
      while (accepted.size < upTo) {
        const event = await harness.event();
        harness.ack(event);
        // An acknowledgement that was on its way when somebody was killed is lost: the event comes again, and is known.
        const { eventId, content } = event.params as { eventId: string; content: { text: string }[] };
        if (!accepted.has(eventId)) accepted.set(eventId, content[0]?.text);
      }
      harness.close();
      if (round === 1) await crowd.kill();
    }
    expect([...accepted.values()]).toEqual(Array.from({ length: count }, (_, at) => `May I merge number ${at}?`));
    await crowd.end();
  });

  it('answers tools while 1,800 posts of two workspaces wait', async () => {
    const busy = new House('Unix socket');
    await busy.program.init('bob');
    const surface = async (workspaceId: string) => {
      const connected = await (await busy.connect()).initialize({ role: 'surface' });
      await connected.done('surface/bind', { platform: 'slack', workspaceId });
      return connected;
    };
    const [first, second] = [await surface('T1'), await surface('T2')];
    const harness = await (await busy.connect()).initialize();
    await harness.done('session/bind', { sessionId: 'one', identities: ['bob'] });
    let answered = 0;
    const posts = Array.from({ length: 1800 }, async (_, at) => {
      await (at % 2 === 0 ? first : second).done('surface/post', {
        messageId: `m${at}`,
        conversation: { id: `C${at % 7}`, kind: 'channel' },
        author: { id: 'U1', kind: 'human' },
        content: [{ type: 'text', text: `word ${at}` }],
      });
      answered += 1;
    });
    let calls = 0;
    for (; answered < posts.length; calls += 1) {
      await harness.done('tools/call', { sessionId: 'one', name: 'chat.list_events', arguments: {} });
    }
    // One after the other with the posts, and not a few between bursts of them.
    expect(calls).toBeGreaterThan(30);
    await Promise.all(posts);
    await busy.end();
  });

  it.each([
    [['host', '--stdio', '--ws', '1'], 64, '--stdio serves one program only'],
    [['host', '--ws', 'many'], 64, '"many" is not a port'],
    [['host', '--socket', '/x'.repeat(80)], 64, 'too long for a socket'],
    [['host', '--sock', 'x'], 64, 'did you mean --socket?'],
  ])('refuses %j in one line', async (args, code, told) => {
    const run = await house.program.run(args);
    expect({ code: run.code, out: run.out, lines: run.err.trimEnd().split('\n').length }).toEqual({
      code,
      out: '',
      lines: 1,
    });
    expect(run.err).toContain(told);
  });
});

afterAll(() => transcripts.clear());

describe('the frames of a whole exchange', () => {
  it('are the same on all three transports, ids and times aside [C2A-6]', () => {
    expect([...transcripts.keys()]).toEqual([...TRANSPORTS]);
    expect(transcripts.get('Unix socket')).toEqual(transcripts.get('stdio') ?? []);
    expect(transcripts.get('WebSocket')).toEqual(transcripts.get('stdio') ?? []);
  });
});
