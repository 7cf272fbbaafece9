import { afterAll, describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { readInvite, writeInvite } from '../../src/protocols/backchannel/invite.ts';
import type { Message } from '../../src/core/message.ts';
import { FIRST_PAUSE_MS } from '../../src/protocols/backchannel/remote-events.ts';
import { Machine, until } from '../support/bch.ts';
import { RemoteMachine } from '../support/remote.ts';
import { OriginalRelay } from '../support/original-relay.ts';
import { SetupMachine } from '../support/setup-home.ts';

const TOKEN = /^[0-9a-f]{64}$/;
const open: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const one of open) await one.close();
});

async function remote(options = {}): Promise<Awaited<ReturnType<typeof RemoteMachine.atOriginal>>> {
  const machine = await RemoteMachine.atOriginal('bch', options);
  open.push(machine);
  return machine;
}

function original(options = {}): OriginalRelay {
  const relay = new OriginalRelay(options);
  open.push({ close: () => relay.stop() });
  return relay;
}

function config(machine: Machine): Record<string, unknown> {
  return JSON.parse(readFileSync(`${machine.root}/config.json`, 'utf8')) as Record<string, unknown>;
}

describe('bch at a relay of the original', () => {
  it('registers with the room token and keeps its own [BC-B7.1, BC-B7.19, BC-B7.20, BC-B3.9, BC-C12]', async () => {
    const relay = original({ roomToken: 'room' });
    const machine = new Machine();
    expect(await machine.said(['init', 'ann', '--url', `${relay.url}/`, '--token', 'room'])).toBe(
      `registered as "ann" (${relay.url})\nagent token issued and saved to config — the room token is no longer needed here\n`,
    );
    const text = readFileSync(`${machine.root}/config.json`, 'utf8');
    const { token } = config(machine);
    expect(token).toMatch(TOKEN);
    expect(text).toBe(JSON.stringify({ agent: 'ann', url: relay.url, token }, null, 2));
    expect(await machine.said(['init', 'ann'])).toBe(`registered as "ann" (${relay.url})\n`);
    expect(config(machine)['token']).toBe(token);
    for (const path of secretFiles(machine)) expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await machine.said(['whoami'])).toBe(`ann via ${relay.url}\n`);
    const wrong = await machine.error(['init', 'eve', '--url', relay.url, '--token', 'wrong']);
    expect(wrong).toBe('unauthorized — registration requires the room token');
  });

  it('leaves the token of the first agent usable when a second is made [BC-C11, BC-B7.44, BC-B7.48]', async () => {
    const machine = await remote();
    const { relay, wire } = machine;
    await machine.said(['init', 'carl', '--url', wire.url, '--token', 'room']);
    expect(await machine.said(['whoami'])).toBe(`carl via ${wire.url}\n`);
    relay.leave('ann', { body: 'for ann' });
    relay.leave('carl', { body: 'for carl' });
    expect(await machine.said(['drain'], { as: 'ann' })).toContain('for ann');
    expect(await machine.said(['drain'])).toContain('for carl');
    const tokens = new Set(
      relay.requests.filter(({ path }) => path === '/v1/take').map(({ headers }) => headers.get('authorization')),
    );
    expect(tokens.size).toBe(2);
    const elsewhere = new Machine();
    const { token } = config(machine);
    const env = { BACKCHANNEL_URL: wire.url, BACKCHANNEL_TOKEN: String(token), BACKCHANNEL_AGENT: 'carl' };
    relay.leave('carl', { body: 'by environment' });
    expect(await elsewhere.said(['drain'], { env })).toContain('by environment');
  });

  it('keeps the token that the original had saved [BC-C11]', async () => {
    const relay = original();
    const machine = new Machine();
    mkdirSync(machine.root, { recursive: true });
    writeFileSync(
      `${machine.root}/config.json`,
      JSON.stringify({ agent: 'old', url: `${relay.url}/`, token: relay.agent('old') }),
    );
    relay.leave('old', { body: 'still mine' });
    await machine.said(['init', 'new']);
    expect(await machine.said(['drain'], { as: 'old' })).toContain('still mine');
    await machine.said(['init', 'old']);
    expect(config(machine)).toMatchObject({ agent: 'old', token: 'old-token' });
  });

  it('speaks every command in the words it has on the local spool [BC-B7.22, BC-B7.25, BC-B7.26, BC-B7.28]', async () => {
    const machine = await remote();
    const { relay, wire } = machine;
    expect(await machine.said(['inbox'])).toBe('inbox empty\n');
    expect(await machine.said(['drain'])).toBe('inbox empty\n');
    expect(await machine.said(['channels'])).toBe('no channels yet — `bch sub #general` to create one\n');
    expect(await machine.said(['sub', 'dev'])).toBe('subscribed to dev\n');
    expect(await machine.said(['channels'])).toBe('#dev\n');
    expect(await machine.said(['agents'])).toMatch(/^ann \(#dev\) — last seen \S+Z\nbob — last seen \S+Z\n$/);
    expect(await machine.said(['unsub', '#dev'])).toBe('unsubscribed from #dev\n');
    const words = ['--urgent', '--scope', 'org/repo', '--thread', 't 1', '--ref', 'a.ts'];
    expect(await machine.said(['send', 'bob', 'hi', 'there', ...words])).toMatch(/^sent [0-9a-f]{8} to bob\n$/);
    expect(relay.inbox('bob')).toMatchObject([
      {
        from: 'ann',
        to: 'bob',
        body: 'hi there',
        priority: 'urgent',
        scope: 'org/repo',
        thread: 't 1',
        refs: ['a.ts'],
      },
    ]);
    expect(await machine.error(['send', '@nobody', 'x'])).toBe(
      'unknown agent "nobody" — they must `bch init nobody` first',
    );
    expect(await machine.error(['send', '#dev', 'x'])).toBe(
      'channel #dev has no other subscribers — nothing to deliver',
    );
    expect(await machine.error(['send', '@../x', 'x'])).toBe('unknown agent "../x" — they must `bch init ../x` first');
    expect(await machine.said(['whoami'])).toBe(`ann via ${wire.url}\n`);
  });

  it('reads, drains and keeps scopes apart as on the local spool [BC-4, BC-6, BC-B7.24]', async () => {
    const machine = await remote();
    const { relay } = machine;
    const one = relay.leave('ann', { body: 'one' });
    relay.leave('ann', { body: 'two', scope: 'org/repo' });
    const told = JSON.parse(await machine.said(['inbox', '--json'])) as Message[];
    expect(told.map(({ body }) => body)).toEqual(['one', 'two']);
    expect(relay.inbox('ann')).toHaveLength(2);
    expect(await machine.said(['drain', '--hook'])).toBe(
      `[backchannel] 1 message(s) for ann:\neve -> @ann (${one.ts}, id ${one.id.slice(0, 8)})\none\n`,
    );
    expect(relay.inbox('ann').map(({ body }) => body)).toEqual(['two']);
    expect(await machine.said(['drain', '--hook'])).toBe('');
    const [two] = relay.inbox('ann');
    expect(await machine.error(['read', 'zzz'])).toBe('no unread message with id zzz');
    expect(await machine.said(['read', two?.id.slice(0, 8) ?? ''])).toContain('two');
    expect(relay.inbox('ann')).toEqual([]);
    expect(await machine.said(['inbox'])).toBe('inbox empty\n');
  });

  it('gives each message to exactly one of many sessions [BC-6]', async () => {
    const machine = await remote();
    const sent = Array.from({ length: 12 }, (_, at) => machine.relay.leave('ann', { body: `m${at}` }).body);
    const outs = await Promise.all([1, 2, 3, 4].map(() => machine.bch(['drain', '--json'])));
    const taken = outs.flatMap(({ out }) => (JSON.parse(out) as Message[]).map(({ body }) => body));
    expect(taken.toSorted()).toEqual(sent.toSorted());
  });

  it('says in one line that a relay cannot be reached, also under --hook, and takes nothing [BC-B7.40]', async () => {
    const machine = await remote();
    machine.relay.leave('ann');
    await machine.wire.down();
    for (const args of [['drain', '--hook'], ['inbox'], ['send', '@bob', 'x'], ['agents']]) {
      expect(await machine.error(args)).toMatch(
        /^the relay http:\/\/127.0.0.1:\d+ cannot be reached \(nothing listens there\)$/,
      );
    }
    await machine.wire.up();
    expect(machine.relay.inbox('bob')).toEqual([]);
    expect(await machine.said(['drain'])).toContain('hello');
  });

  it.each([
    [
      'html',
      /answered 502 with text\/html instead of JSON: a proxy or another program answers there, not a relay \("Bad gateway"\)/,
    ],
    [
      'sent on',
      /redirects to http:\/\/example.org\/x; give that address instead: tokens are not sent to another address/,
    ],
    ['answer lost', /did not answer \(it closed the connection\)/],
  ] as const)('explains an answer that is %s', async (kind, text) => {
    const machine = await remote();
    machine.wire.fault = { at: /\/v1\/inbox/, kind };
    expect(await machine.error(['inbox'])).toMatch(text);
  });

  it('does not send a message twice whose answer was lost: the original knows no keys', async () => {
    const machine = await remote();
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    expect(await machine.error(['send', '@bob', 'once'])).toMatch(/nobody can tell whether the message was sent/);
    machine.wire.fault = null;
    await machine.said(['inbox']);
    expect(machine.relay.inbox('bob').map(({ body }) => body)).toEqual(['once']);
  });

  it('loses no message whose take was not answered, and shows it once', async () => {
    const machine = await remote();
    machine.relay.leave('ann', { body: 'precious' });
    machine.wire.fault = { at: /\/v1\/take/, kind: 'answer lost' };
    expect(await machine.said(['drain'])).toContain('precious');
    expect(machine.relay.inbox('ann')).toEqual([]);
    machine.wire.fault = null;
    expect(await machine.said(['drain'])).toBe('inbox empty\n');
  });

  it('finds again what a killed reader had taken and not kept', async () => {
    const machine = await remote();
    machine.relay.leave('ann', { body: 'precious' });
    machine.wire.fault = { at: /\/v1\/take/, kind: 'stalled' };
    const killed = machine.start('bch', ['drain']);
    await until('the take', () => machine.wire.met > 0);
    // The relay took it; anyone who asked is dead before it could hear so.
    machine.relay.takeAll('ann');
    await killed.stop('SIGKILL');
    machine.wire.fault = null;
    expect(await machine.said(['drain'])).toContain('precious');
    expect(await machine.said(['drain'])).toBe('inbox empty\n');
  });
});

describe('rooms and invites of bch', () => {
  it('make a room, print an invite, and let newcomers in, as many as come [BC-B7.2, BC-B7.4, BC-B7.21, BC-B8.1, BC-B8.3, BC-B8.4, BC-B8.5]', async () => {
    const relay = original();
    const machine = new SetupMachine();
    const said = await machine.said([
      'room',
      'new',
      '#dev',
      'qa',
      '--channel',
      'ops',
      '--channel',
      '#web',
      '--url',
      relay.url,
    ]);
    const [headline, , line = ''] = said.split('\n');
    const [, invite = ''] = /^ {2}bch join (bch1-\S+) --as their-name$/.exec(line) ?? [];
    const { url, token, room, channels } = readInvite(invite);
    expect({ url, channels }).toEqual({ url: relay.url, channels: ['#dev', '#qa', '#ops', '#web'] });
    expect(headline).toBe(`room "${room}" created.`);
    expect(token).toMatch(/^[A-Za-z0-9_-]{32}$/);
    const joined = await machine.said(['join', invite, '--as', 'ann']);
    expect(joined).toMatch(/\n\[none\] no known harness detected/);
    expect(joined.split('\n').filter((one) => !one.startsWith('['))).toEqual([
      `joined ${relay.url} (room ${room}) as "ann" (personal token saved)`,
      'subscribed to #dev',
      'subscribed to #qa',
      'subscribed to #ops',
      'subscribed to #web',
      '',
      'ready — try: bch send @<someone> "hello from ann"',
      '',
    ]);
    expect(config(machine)).toMatchObject({ agent: 'ann', url: relay.url, room });
    const again = await machine.error(['join', invite, '--as', 'ann']);
    expect(again).toBe('agent name "ann" is registered — present its token to re-register');
    await new SetupMachine().said(['join', invite, '--as', 'bob']);
    await machine.said(['send', '#dev', 'welcome']);
    expect(relay.inbox('bob', room).map(({ body }) => body)).toEqual(['welcome']);
    expect(relay.inbox('bob')).toEqual([]);
  });

  it('set up the clients that are there, unless told not to [BC-B7.4, BC-B7.46]', async () => {
    const relay = original();
    const machine = new SetupMachine();
    const env = { BACKCHANNEL_SETUP_HOME: machine.at('elsewhere') };
    machine.with({ 'elsewhere/.claude/': '' });
    const invite = writeInvite({ url: relay.url });
    expect(await machine.error(['join', invite], { env })).toBe('usage: bch join <invite> --as <name>');
    const said = await machine.said(['join', invite, '--as', 'eve', '--no-hooks'], { env });
    expect(said).not.toContain('[');
    expect(readdirSync(machine.at('elsewhere/.claude'))).toEqual([]);
    const joined = await machine.said(['join', invite, '--as', 'ann', '--wake'], { env });
    expect(joined).toContain(
      `[claude-code] ${machine.at('elsewhere/.claude/settings.json')} reads your mail before each prompt`,
    );
    expect(joined).toMatch(/\[wake\] \S+ tells you of urgent mail from now on/);
    expect(machine.read('elsewhere/.claude/settings.json')).toContain('drain --hook');
  });

  it('are done before a client turns out to be unreadable, and say what to run then', async () => {
    const relay = original();
    const machine = new SetupMachine().with({ '.claude/settings.json': '{' });
    const joining = await machine.bch(['join', writeInvite({ url: relay.url }), '--as', 'ann']);
    expect(joining).toMatchObject({ code: 1, out: `joined ${relay.url} as "ann" (personal token saved)\n` });
    expect(joining.err).toMatch(
      /settings\.json is not valid JSON; it is left as it is\. Mend it, then `bch setup` again\n$/,
    );
    expect(await machine.said(['whoami'])).toBe(`ann via ${relay.url}\n`);
  });

  it('print an invite for a token at hand, and send nothing [BC-B7.3, BC-B8.1, BC-B8.3, BC-B8.4]', async () => {
    const machine = new Machine();
    const channels = ['--channel', 'dev', '--channel', '#ops'];
    const args = ['invite', '--url', 'https://relay.test/', '--token', 'secret', ...channels, '--out', 'x'];
    const [, text = ''] = /bch join (\S+) --as/.exec(await machine.said(args)) ?? [];
    const json = Buffer.from(text.slice('bch1-'.length), 'base64url').toString();
    expect(json).toBe('{"url":"https://relay.test","token":"secret","channels":["#dev","#ops"]}');
    expect(text).not.toContain('=');
    expect(await machine.said(args)).toStartWith('invite created.\n');
    expect(await machine.error(['invite', '--url', 'https://relay.test'])).toMatch(/^--token <room-token> required/);
  });

  it('know no default relay but the one that is named [BC-B7.46, BC-B7.49, BC-B7.50, BC-B7.51]', async () => {
    const relay = original();
    const guarded = original({ adminToken: 'admin' });
    const machine = new Machine();
    expect(await machine.error(['room', 'new'])).toMatch(/^there is no default relay/);
    expect(await machine.error(['invite', '--token', 'x'])).toMatch(/^there is no default relay/);
    const env = { BACKCHANNEL_DEFAULT_RELAY: relay.url };
    expect(await machine.said(['room', 'new'], { env })).toMatch(/^room "/);
    mkdirSync(machine.root, { recursive: true });
    writeFileSync(`${machine.root}/config.json`, JSON.stringify({ agent: 'a', url: guarded.url, token: 'admin' }));
    expect(await machine.error(['room', 'new'], { env })).toBe('room creation is restricted on this relay');
    expect(guarded.requests.at(-1)?.headers.get('authorization')).toBeNull();
    expect(await machine.said(['room', 'new'], { env: { BACKCHANNEL_URL: relay.url } })).toMatch(/^room "/);
    expect(await machine.said(['room', 'new', '--url', relay.url], { env: { BACKCHANNEL_URL: guarded.url } })).toMatch(
      /^room "/,
    );
  });

  it.each([
    ['another word', 'xyz', 'not a backchannel invite (expected it to start with bch1-)'],
    ['no JSON', 'bch1-xyz', 'malformed invite'],
    [
      'a token that is none',
      `bch1-${Buffer.from('{"url":"https://x.test","token":5}').toString('base64url')}`,
      'malformed invite',
    ],
    [
      'an empty address',
      `bch1-${Buffer.from('{"url":""}').toString('base64url')}`,
      'malformed invite: missing relay url',
    ],
    ['no address', `bch1-${Buffer.from('{"token":"x"}').toString('base64url')}`, 'malformed invite: missing relay url'],
  ])('refuse %s as an invite [BC-B8.2]', async (_what, invite, text) => {
    expect(await new Machine().error(['join', invite, '--as', 'ann'])).toBe(text);
  });

  it('take the room of the environment, and only that variable [BC-B3.9, BC-B7.45]', async () => {
    const relay = original();
    const machine = new Machine();
    const [, invite = ''] = /join (\S+)/.exec(await machine.said(['room', 'new', '--url', relay.url])) ?? [];
    const { room = '', token = '' } = readInvite(invite);
    const env = { BACKCHANNEL_RELAY_ROOM: room, BACKCHANNEL_ROOM: 'brain' };
    // The original's tokens may begin with a dash.
    await machine.said(['init', 'ann', '--url', relay.url, `--token=${token}`], { env });
    expect(config(machine)).toMatchObject({ room });
    expect(relay.requests.at(-1)?.headers.get('x-backchannel-room') ?? room).toBe(room);
    relay.leave('ann', { body: 'in the room' }, room);
    expect(await machine.said(['drain'])).toContain('in the room');
    const other = new Machine();
    await other.said(['init', 'bob', '--url', relay.url], { env: { BACKCHANNEL_ROOM: room } });
    expect(config(other)).not.toHaveProperty('room');
  });

  it('believe the environment before the config [BC-B7.47]', async () => {
    const [relay, other] = [original(), original()];
    const machine = new Machine();
    mkdirSync(machine.root, { recursive: true });
    const stale = { agent: 'ann', url: relay.url, token: 'stale', room: 'elsewhere', backend: 'fs' };
    writeFileSync(`${machine.root}/config.json`, JSON.stringify(stale));
    const env = {
      BACKCHANNEL_BACKEND: 'relay',
      BACKCHANNEL_RELAY_ROOM: 'default',
      BACKCHANNEL_TOKEN: relay.agent('ann'),
    };
    relay.leave('ann', { body: 'by environment' });
    expect(await machine.said(['drain'], { env })).toContain('by environment');
    expect(await machine.said(['whoami'], { env: { ...env, BACKCHANNEL_URL: other.url } })).toBe(
      `ann via ${other.url}\n`,
    );
  });

  it('name the relay that the environment asks for [BC-B7.1]', async () => {
    const relay = original();
    const machine = new SetupMachine();
    const env = { BACKCHANNEL_BACKEND: 'relay' };
    const advice = 'the relay backend is set but no relay is named; run `bch init <name> --url <relay>`';
    expect(await machine.error(['init', 'bob'], { env })).toBe(advice);
    await machine.said(['init', 'bob', '--url', relay.url], { env });
    expect(await machine.said(['whoami'], { env })).toBe(`bob via ${relay.url}\n`);
    const newcomer = new SetupMachine();
    await newcomer.said(['join', writeInvite({ url: relay.url }), '--as', 'ann', '--no-hooks'], { env });
    expect(await newcomer.said(['whoami'], { env })).toBe(`ann via ${relay.url}\n`);
    expect(await machine.error(['init', 'eve', '--url', relay.url], { env: { UNISON_TOKEN: 'x' } })).toMatch(
      /^the brain/,
    );
  });

  it('show no token to a network without TLS unless told to', async () => {
    const machine = new Machine();
    expect(await machine.error(['init', 'ann', '--url', 'http://relay.test', '--token', 'x'])).toBe(
      'anyone on the way to http://relay.test could read your token and your mail; use https, or give --insecure if that network is yours',
    );
    expect(existsSync(`${machine.root}/config.json`)).toBe(false);
  });
});

describe('bch watch at a relay of the original', () => {
  it('counts as subscribed before the first bytes of the stream, and takes what it prints [BC-B6.3, BC-B7.30]', async () => {
    const machine = await remote();
    const { relay } = machine;
    const watch = machine.start('bch', ['watch']);
    await watch.complains('watching inbox for ann (ctrl-c to stop)');
    await until('a stream', () => relay.hasListener('ann'));
    relay.leave('ann', { body: 'news' });
    await watch.says('news');
    await until('the take', () => relay.inbox('ann').length === 0);
    expect((await watch.stop()).err).toBe('watching inbox for ann (ctrl-c to stop)\n');
  });

  it('comes back 2 s after the stream ends, and announces nothing twice [BC-B6.2, BC-C10]', async () => {
    const machine = await remote();
    const { relay, wire } = machine;
    relay.leave('ann', { body: 'before' });
    const watch = machine.start('bch', ['watch', '--peek']);
    await watch.says('before');
    const began = Date.now();
    await wire.down();
    await until('the end of the stream', () => !relay.hasListener('ann'));
    relay.leave('ann', { body: 'meanwhile' });
    await wire.up();
    await watch.says('meanwhile');
    expect(FIRST_PAUSE_MS).toBe(2000);
    expect(Date.now() - began).toBeGreaterThan(1900);
    wire.cut();
    relay.leave('ann', { body: 'after', priority: 'urgent' });
    await watch.says('after');
    const { out, err } = await watch.stop();
    expect(out.match(/before|meanwhile|after/g)).toEqual(['before', 'meanwhile', 'after']);
    expect(err).toBe('watching inbox for ann (peek: messages stay queued) (ctrl-c to stop)\n');
    expect(relay.inbox('ann')).toHaveLength(3);
  });

  it('goes on after a 401, quietly [BC-B6.2]', async () => {
    const machine = await remote();
    const env = { BACKCHANNEL_TOKEN: 'revoked' };
    const watch = machine.start('bch', ['watch'], { env });
    const path = '/v1/events/ann';
    await until('a second try', () => machine.relay.asked(path) >= 2);
    expect((await watch.stop()).err).toBe('watching inbox for ann (ctrl-c to stop)\n');
  });

  it('runs a command on urgent mail only, and gives back what the command refused [BC-18, BC-3]', async () => {
    const machine = await remote();
    const { relay } = machine;
    relay.leave('ann', { body: 'later' });
    relay.leave('ann', { body: 'now', priority: 'urgent' });
    const refused = machine.start('bch', ['watch', '--urgent-only', '--exec', 'false']);
    await refused.complains('comes back');
    await refused.stop();
    expect(relay.inbox('ann').map(({ body }) => body)).toEqual(['later']);
    const told = JSON.parse(await machine.said(['inbox', '--json'])) as Message[];
    expect(told.map(({ body }) => body)).toEqual(['later', 'now']);
    const done = machine.start('bch', ['watch', '--exec', 'echo "ran on {{body}}"']);
    await done.says('ran on later');
    await done.says('ran on now');
    await done.stop();
    expect(await machine.said(['inbox'])).toBe('inbox empty\n');
  });

  it('leaves a message to the next reader if it dies in the middle of it [BC-16]', async () => {
    const machine = await remote();
    machine.relay.leave('ann', { body: 'unfinished' });
    const watch = machine.start('bch', ['watch', '--exec', 'echo begun; sleep 60']);
    await watch.says('begun');
    await watch.stop('SIGKILL');
    expect(await machine.said(['drain'])).toContain('unfinished');
    expect(await machine.said(['drain'])).toBe('inbox empty\n');
  });
});

describe('bch at a relay of ours', () => {
  it('says and does the same', async () => {
    const machine = await RemoteMachine.atOurs('bch');
    open.push(machine);
    expect(await machine.said(['send', '@bob', 'hi'])).toMatch(/^sent [0-9a-f]{8} to @bob\n$/);
    expect(await machine.peer.bodies()).toEqual(['hi']);
    expect(await machine.error(['send', '@nobody', 'x'])).toBe(
      'unknown agent "nobody" — they must `bch init nobody` first',
    );
    await machine.peer.send('@ann', 'one');
    await machine.peer.send('@ann', 'two', { scope: 'org/repo' });
    expect(await machine.said(['drain', '--hook'])).toMatch(/^\[backchannel\] 1 message\(s\) for ann:\n.*\none\n$/);
    expect(await machine.said(['inbox', '--brief'])).toMatch(/: two\n$/);
    const watch = machine.start('bch', ['watch', '--match', 'org/repo']);
    await watch.says('two');
    await machine.peer.send('@ann', 'three');
    await watch.says('three');
    expect((await watch.stop()).err).toBe('watching inbox for ann (ctrl-c to stop)\n');
    expect(await machine.said(['inbox'])).toBe('inbox empty\n');
    expect(await machine.said(['sub', '#dev'])).toBe('subscribed to #dev\n');
    expect(await machine.said(['channels'])).toBe('#dev\n');
  });

  it('sends a message again whose answer was lost, and it arrives once', async () => {
    const machine = await RemoteMachine.atOurs('bch');
    open.push(machine);
    machine.wire.fault = { at: /\/v1\/send/, kind: 'answer lost' };
    const sending = machine.start('bch', ['send', '@bob', 'once']);
    await until('the send', () => machine.wire.met > 0);
    machine.wire.fault = null;
    await sending.ended();
    expect(sending.run().out).toMatch(/^sent /);
    expect(await machine.peer.bodies()).toEqual(['once']);
  });
});

function secretFiles(machine: Machine): string[] {
  const relays = `${machine.root}/relays`;
  return [`${machine.root}/config.json`, ...readdirSync(relays).map((name) => `${relays}/${name}/relay.json`)];
}
