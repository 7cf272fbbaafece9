// The first home clears away what earlier runs left, which can take long: not on a test's time.
import { beforeAll, describe, expect, it } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hashOf } from '../../src/wire/tokens.ts';
import { Machine } from '../support/bch.ts';
import { temporaryHome } from '../support/home.ts';
import { Hooks } from '../support/hooks.ts';
import { LOUD } from '../support/mail.ts';
import { McpClient } from '../support/mcp.ts';
import { Program } from '../support/program.ts';

temporaryHome();

/** Everything by which somebody could be recognised at a relay. */
const HASHES = ['of bob', 'of codex', 'of a room'].map(hashOf);

describe('what a relay knows agents by', () => {
  const machine = new Machine();
  const parleyRecord = `${machine.program.home}/.parley/agents/codex.json`;

  beforeAll(async () => {
    await machine.program.run(['init', 'codex']);
    const record = JSON.parse(readFileSync(parleyRecord, 'utf8'));
    writeFileSync(parleyRecord, JSON.stringify({ ...record, tokenHash: hashOf('of codex') }, null, 2));
    machine.agent('bob', { tokenHash: hashOf('of bob'), subscriptions: ['#dev'] });
    machine.agent('carol', { subscriptions: ['#dev'] });
    mkdirSync(`${machine.root}/rooms/aRoom`, { recursive: true });
    writeFileSync(`${machine.root}/rooms/aRoom/room.json`, JSON.stringify({ tokenHash: hashOf('of a room') }));
    writeFileSync(`${machine.root}/agents/dave.json`, `{ "name": "dave", "tokenHash": "${hashOf('of bob')}`);
  });

  it.each([
    ['parley', 'agents'],
    ['parley', 'agents --json'],
    ['parley', 'channels --json'],
    ['parley', 'whoami --json'],
    ['parley', 'whoami --json --verbose'],
    ['parley', 'doctor'],
    ['parley', 'doctor --json'],
    ['parley', 'config --json'],
    ['parley', 'forget bob%bch'],
    ['parley', 'relay token list'],
    ['parley', 'relay token list --json'],
    ['bch', 'agents'],
    ['bch', 'channels'],
    ['bch', 'whoami'],
  ] as const)('is not shown by %s %s', async (program, words) => {
    const running = machine.start(program, words.split(' '), { as: 'bob', env: { PARLEY_LOG: 'debug' } });
    await running.ended();
    const told = running.out + running.err;
    expect(told).not.toBe('');
    expect(told).not.toContain('internal error');
    for (const secret of [...HASHES, 'tokenHash']) expect(told).not.toContain(secret);
  });

  it('is kept when a record is written again [BC-B3.5]', async () => {
    await machine.said(['sub', '#ops'], { as: 'bob' });
    await machine.said(['inbox'], { as: 'bob' });
    await machine.said(['send', '@carol', 'hello'], { as: 'bob' });
    await machine.said(['init', 'bob']);
    expect(machine.record('bob')).toMatchObject({ tokenHash: hashOf('of bob'), subscriptions: ['#dev', '#ops'] });
    expect(machine.record('bob')['lastSeen']).not.toBe('2026-01-02T03:04:05.678Z');
    await machine.program.byPerson(['init', 'codex', '--human']);
    await machine.program.run(['sub', '#dev'], { as: 'codex' });
    expect(JSON.parse(readFileSync(parleyRecord, 'utf8'))).toMatchObject({
      tokenHash: hashOf('of codex'),
      subscriptions: ['#dev'],
    });
  });

  it('is given to no record that is there already, and to a local one only on the host', async () => {
    await machine.said(['init', 'carol']);
    expect(machine.record('carol')).not.toHaveProperty('tokenHash');
    const issued = await machine.program.run(['relay', 'token', 'issue', 'carol']);
    expect(issued.code).toBe(0);
    expect(machine.record('carol')['tokenHash']).toBe(hashOf(issued.out.trim()));
  });
});

describe('a secret that somebody wrote', () => {
  const KEY = 'AKIAIOSFODNN7EXAMPLE';
  const BODY = `the key is ${KEY}, use it`;

  it('is masked in what a hook says, and kept for anyone who reads the message [C2A-168]', async () => {
    const hooks = await new Hooks().with('bob', 'alice');
    const { id } = await hooks.send({ body: BODY, refs: [`https://alice:hunter22@example.com/${KEY}`] });
    await hooks.send({ body: BODY, from: KEY }, 'bob', { ...LOUD, injection: 'notify', policy: 'may_respond' });
    await hooks.send({ body: `${BODY} `.repeat(1000) });
    const said = await hooks.said();
    expect(said).toContain('the key is [secret], use it');
    expect(said).toContain('knock');
    expect(said).toContain('long message');
    expect(said).not.toContain('IOSFODNN7');
    expect(said).not.toContain('hunter22');
    const program = new Program(hooks.user);
    expect((await program.run(['read', id, '--as', 'bob'])).out).toContain(BODY);
  });

  const AS_C2A = { idempotencyKey: 'k', visibility: 'dm', directedness: 'to_me' };
  type Call = [tool: string, given: object];
  const MAIL = (id: string): Call[] => [
    ['read', { id }],
    ['defer', { id, reason: BODY }],
    ['done', { id, note: BODY }],
    ['send', { to: `@${KEY}`, text: BODY }],
  ];
  const C2A = (id: string): Call[] => [
    ['chat_read_thread', { eventId: id }],
    ['chat_defer', { eventId: id, reason: BODY }],
    ['chat_resolve', { eventId: id, note: BODY }],
    ['chat_send_message', { target: `@${KEY}`, text: BODY, ...AS_C2A }],
  ];

  it.each([
    ['parley', 'inbox', MAIL],
    ['c2a', 'chat_list_events', C2A],
  ] as const)(
    'is masked in what tools answer, and in what they refuse, by the face %s [C2A-168]',
    async (face, list, calls) => {
      const program = await new Program().init('alice', 'bob');
      await program.run(['send', '@bob', BODY], { as: 'alice' });
      const client = new McpClient(program, ['--as', 'bob', '--face', face]);
      const told = [await client.call(list)];
      const [, id = ''] = /\n(\w{8}) @alice/.exec(told[0]?.text ?? '') ?? [];
      for (const [tool, given] of calls(id)) told.push(await client.call(tool, given));
      const { err } = await client.end();
      expect(told.map(({ isError }) => isError)).toEqual([false, false, false, false, true]);
      expect(told[1]?.text).toContain('> the key is [secret], use it');
      for (const { text } of told) expect(text).not.toContain('IOSFODNN7');
      expect(err).not.toContain('IOSFODNN7');
      const why = await program.run(['trace', id], { as: 'bob' });
      expect(why.out).not.toContain('IOSFODNN7');
    },
  );
});
