import { describe, expect, it } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { PARLEY_COMMANDS } from '../../src/cli/table.ts';
import { McpClient } from '../support/mcp.ts';
import { Program } from '../support/program.ts';

/** Three words or more, with commas or an "or" between them: the values that the help lists. */
const LISTED = /(?:^|: |only )((?:[a-z_]+, ){2,}[a-z_]+|(?:[a-z_]+, )+[a-z_]+ or [a-z_]+)/;
/** What a command needs besides the option. `ID` is a message that waits. */
const WORDS: Partial<Record<string, string[]>> = {
  send: ['@alice', 'hi'],
  reply: ['ID', 'hi'],
  ack: ['ID'],
  session: ['add', 'api'],
};

interface Listed {
  command: string;
  option: string;
  values: string[];
}

async function listedOptions(): Promise<Listed[]> {
  const found: Listed[] = [];
  for (const { name, load } of PARLEY_COMMANDS) {
    for (const [option, { type, help }] of Object.entries((await load()).options)) {
      const [, list] = LISTED.exec(help) ?? [];
      if (type === 'string' && list) found.push({ command: name, option, values: list.split(/, | or /) });
    }
  }
  return found;
}

describe('a value that an option does not know', () => {
  it('is refused in one line that lists the values, for every such option of every command', async () => {
    const program = await new Program().init('alice');
    const { id } = await program.json<{ id: string }>(['send', '@alice', 'hello']);
    const listed = await listedOptions();
    expect(listed.map(({ command, option }) => `${command} --${option}`)).toEqual([
      'send --intent',
      'send --blocks',
      'reply --intent',
      'ack --outcome',
      'session --client',
      'events --policy',
      'up --with',
    ]);
    for (const { command, option, values } of listed) {
      const words = (WORDS[command] ?? []).map((word) => (word === 'ID' ? id : word));
      const { out, err, code } = await program.run([command, ...words, `--${option}`, 'foo']);
      expect({ out, code }).toEqual({ out: '', code: 64 });
      expect(err).toMatch(/^parley: [^\n]*\n$/);
      expect(err).not.toMatch(/Invalid|Expected|received/);
      for (const value of values) expect(err).toContain(value);
    }
  });

  it('is refused by the name of its option', async () => {
    const program = await new Program().init('alice');
    const refusal = async (...args: string[]): Promise<string> =>
      (await program.run(['send', '@alice', 'x', ...args])).err;
    expect(await refusal('--intent', 'foo')).toBe(
      'parley: --intent: use none, question, assignment, approval, blocker, fyi, status or thanks\n',
    );
    expect(await refusal('--blocks', 'foo')).toBe('parley: --blocks: use halted, degraded or none\n');
    expect(await refusal('--blocks', 'none', '--or-else', 'x'.repeat(501))).toBe(
      'parley: --or-else: use at most 500 characters\n',
    );
    expect(await refusal('--first-tried', 'foo')).toBe(
      'parley: --first-tried: use an ISO time, such as 2026-11-17T08:30:00Z\n',
    );
    expect(await refusal('--ref', 'a\nb')).toBe('parley: --ref: use one line\n');
    expect(await refusal('--intent', '--urgent')).toBe(
      'parley: --intent needs a value (one that begins with - is written --intent=-…)\n',
    );
  });
});

describe('a setting that cannot be used', () => {
  it.each([
    ['durability', 'foo', 'use normal or full'],
    ['bodyLimit', 'foo', 'use a whole number'],
    ['bodyLimit', '0', 'use 1 or more'],
    ['composeMs', '1', 'use 2000 to 5000 ms'],
    ['keepBodies', 'foo', 'write a number of days, 30d, 12h, 5m or forever'],
  ])('%s as %j is refused in our words: by config, in a file and in the environment', async (name, value, advice) => {
    const program = await new Program().init('alice');
    const { err } = await program.run(['config', 'set', name, value]);
    expect(err).toBe(`parley: "${value}" is not a value for ${name}: ${advice}\n`);
    const variable = `PARLEY_${name.replace(/[A-Z]/g, '_$&').toUpperCase()}`;
    const env = await new Program(program.home, { [variable]: value }).run(['inbox']);
    expect(env).toEqual({ out: '', err: `parley: ${name} from ${variable} is not usable: ${advice}\n`, code: 78 });
    const file = `${program.home}/.parley/config.json`;
    mkdirSync(`${program.home}/.parley`, { recursive: true });
    writeFileSync(file, JSON.stringify({ agent: 'alice', [name]: value }));
    expect((await program.run(['inbox'])).err).toBe(`parley: ${name} from ${file} is not usable: ${advice}\n`);
  });
});

describe('arguments of a tool that do not fit', () => {
  type Wrong = [tool: string, given: object, answer: string];
  const MAIL: Wrong[] = [
    ['inbox', { owed: 'foo' }, 'owed: use true or false'],
    ['inbox', { limit: 'x' }, 'limit: use a number'],
    ['inbox', { since: 'soon' }, '"soon" is not a time; write 2h, 1d or an ISO time'],
    ['claim', { id: 'x', release: 'foo' }, 'release: use true or false'],
    ['claim', {}, 'id is missing'],
    [
      'send',
      { to: '@alice', text: 'x', intent: 'foo' },
      'intent: use none, question, assignment, approval, blocker, fyi, status or thanks',
    ],
  ];
  const C2A: Wrong[] = [
    ['chat_list_events', { policy: 'foo' }, 'policy: use must_respond, may_respond, ack_only or must_not_respond'],
    ['chat_list_events', { limit: 'x' }, 'limit: use a number'],
    ['chat_list_events', { since: 'soon' }, 'since: use an ISO time, such as 2026-11-17T08:30:00Z'],
    ['chat_claim', { eventId: 'x', release: 'foo' }, 'release: use true or false'],
    ['chat_claim', {}, 'eventId is missing'],
    [
      'chat_send_message',
      { target: '@alice', text: 'x', idempotencyKey: 'k', visibility: 'foo', directedness: 'to_me' },
      'visibility: use dm, thread, channel or ephemeral',
    ],
  ];
  const GIVEN = { parley: MAIL, c2a: C2A };
  it.each(['parley', 'c2a'] as const)('are refused in our words by the face %s', async (face) => {
    const program = await new Program().init('alice');
    const client = new McpClient(program, ['--as', 'alice', '--face', face]);
    await client.initialize();
    for (const [tool, given, text] of GIVEN[face])
      expect(await client.call(tool, given)).toEqual({ text, isError: true });
    await client.end();
  });

  it('are refused in our words by the tools of bch too', async () => {
    const program = await new Program().init('alice');
    await program.run(['init', 'bob'], { name: 'bch' });
    const client = new McpClient({ home: program.home, env: { ...program.env, BACKCHANNEL_AGENT: 'bob' } }, [], 'bch');
    await client.initialize();
    expect((await client.call('bch_inbox', { match: 5 })).text).toContain('match: use a text');
    expect((await client.call('bch_inbox', { foo: 5 })).text).toContain('foo: leave it out');
    await client.end();
  });
});
