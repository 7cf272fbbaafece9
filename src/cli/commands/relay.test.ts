import { beforeEach, describe, expect, it } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, bob } from '../../../test/support/mail.ts';
import { within } from '../../../test/support/within.ts';
import { hashOf } from '../../wire/tokens.ts';
import { FilesDirectory } from '../../store/directory/files.ts';
import { WatchedDirectory } from '../../store/directory/watched.ts';
import { FilesRooms } from '../../protocols/backchannel/rooms.ts';
import { Context } from '../context.ts';
import { relayToken } from './relay.ts';

/** What a command says, instead of a terminal. */
class Heard extends Context {
  out = '';
  err = '';
  override say(text: string): void {
    this.out += `${text}\n`;
  }
  override sayJson(value: unknown): void {
    this.out += JSON.stringify(value);
  }
  override note(text: string): void {
    this.err += `${text}\n`;
  }
}

describe('parley relay token', () => {
  let home: string;
  let root: string;
  let directory: FilesDirectory;
  beforeEach(() => {
    home = temporaryHome();
    root = `${home}/.backchannel`;
    mkdirSync(root);
    directory = new FilesDirectory(root, Date.now);
  });

  async function run(words: string, values: Record<string, unknown> = {}): Promise<Heard> {
    const context = new Heard({ HOME: home, NO_COLOR: '1' }, home, values);
    await relayToken(context, words.split(' '), values);
    return context;
  }
  function textOf(name: string, folder = root): string {
    return readFileSync(`${folder}/agents/${name}.json`, 'utf8');
  }

  it('issues a token, shows it once, and keeps only its hash [BC-B5.21]', async () => {
    await directory.register(bob, 'agent');
    const { out, err } = await run('issue @bob');
    const token = out.trim();
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(err).toContain('shown only now');
    expect(err).not.toContain(token);
    expect(JSON.parse(textOf('bob')).tokenHash).toBe(new Bun.CryptoHasher('sha256').update(token).digest('hex'));
    expect(textOf('bob')).not.toContain(token);
    expect(await directory.byToken(hashOf(token))).toBe(bob);
  });

  it('gives a program the token in JSON', async () => {
    await directory.register(bob, 'agent');
    const { agent, room, token } = JSON.parse((await run('issue bob', { json: true })).out);
    expect({ agent, room }).toEqual({ agent: 'bob', room: 'default' });
    expect(await directory.byToken(hashOf(token))).toBe(bob);
  });

  it('does not issue a second token, but replaces the first when asked to', async () => {
    await directory.register(bob, 'agent');
    await expect(run('rotate bob')).rejects.toMatchObject({ code: 'not_found' });
    const first = (await run('issue bob')).out.trim();
    await expect(run('issue bob')).rejects.toMatchObject({ code: 'name_taken' });
    const second = (await run('rotate bob')).out.trim();
    expect(await directory.byToken(hashOf(first))).toBeNull();
    expect(await directory.byToken(hashOf(second))).toBe(bob);
  });

  it('revokes a token, and does not mind if there is none', async () => {
    await directory.register(bob, 'agent', hashOf('t'));
    expect((await run('revoke bob')).out).toContain('cannot log in any more');
    expect(textOf('bob')).not.toContain('tokenHash');
    expect((await run('revoke bob')).out).toContain('had no token');
    expect(JSON.parse((await run('revoke bob', { json: true })).out)).toEqual({
      agent: 'bob',
      room: 'default',
      revoked: false,
    });
  });

  it('is noticed by a relay that runs', async () => {
    await directory.register(bob, 'agent');
    const relay = new WatchedDirectory(root, Date.now);
    expect(await relay.byToken(hashOf('none'))).toBeNull();
    const first = (await run('issue bob')).out.trim();
    await within(20_000, async () => (await relay.byToken(hashOf(first))) === bob);
    const second = (await run('rotate bob')).out.trim();
    await within(20_000, async () => (await relay.byToken(hashOf(first))) === null);
    expect(await relay.byToken(hashOf(second))).toBe(bob);
    await run('revoke bob');
    await within(20_000, async () => (await relay.byToken(hashOf(second))) === null);
    await relay.close();
  });

  it('lists who has a token, and never the token or its hash', async () => {
    await directory.register(alice, 'agent');
    await directory.register(bob, 'agent', hashOf('t'));
    expect((await run('list')).out).toBe('@alice  no token\n@bob  has a token\n');
    const { out } = await run('list', { json: true });
    expect(JSON.parse(out)).toMatchObject([
      { agent: 'alice', room: 'default', hasToken: false },
      { agent: 'bob', room: 'default', hasToken: true },
    ]);
    expect(out).not.toContain(hashOf('t'));
  });

  it('says which records cannot be read, and which share a token', async () => {
    for (const name of [alice, bob]) await directory.register(name, 'agent', hashOf('t'));
    writeFileSync(`${root}/agents/carol.json`, '{ half');
    const { out, err } = await run('list');
    expect(out).toContain('@alice');
    expect(err).toContain('carol.json cannot be read');
    expect(err).toContain('@alice and @bob share one token');
    expect(err).not.toContain(hashOf('t'));
  });

  it('works in another room, and in that only', async () => {
    const rooms = new FilesRooms(root, { defaultTokenHash: null });
    const { roomId } = await rooms.create();
    const there = new FilesDirectory(rooms.root(roomId), Date.now);
    await there.register(bob, 'foreign', hashOf('old'));
    await directory.register(bob, 'foreign');
    const token = (await run('rotate bob', { room: roomId })).out.trim();
    expect(await there.byToken(hashOf(token))).toBe(bob);
    expect(textOf('bob')).not.toContain('tokenHash');
  });

  it.each([
    ['nothing', '', {}, 'usage: parley relay token'],
    ['another verb', 'give bob', {}, 'usage: parley relay token'],
    ['a verb that every object knows', 'constructor bob', {}, 'usage: parley relay token'],
    ['no agent', 'issue', {}, 'usage: parley relay token'],
    ['two agents', 'issue bob carol', {}, 'usage: parley relay token'],
    ['an agent that is not here', 'issue bop', {}, 'did you mean bob?'],
    ['an agent that is nobody like', 'issue zebra', {}, 'bch init zebra'],
    ['what is no name', 'issue ../bob', {}, 'invalid agent name'],
    ['a room that is not there', 'issue bob', { room: 'nowhere' }, 'there is no room "nowhere"'],
    ['what is no room', 'issue bob', { room: '../agents' }, 'invalid room'],
    ['an option of the relay itself', 'issue bob', { port: '7117' }, '--port does not belong'],
  ])('refuses %s, and changes nothing', async (_what, words, values, text) => {
    await directory.register(bob, 'agent');
    const before = textOf('bob');
    await expect(run(words, values)).rejects.toThrow(text);
    expect(textOf('bob')).toBe(before);
  });

  it('makes no folder by looking', async () => {
    await expect(run('list', { room: 'nowhere' })).rejects.toThrow('no room');
    expect((await run('list')).out).toBe('nobody is in room default\n');
    expect([...new Bun.Glob('**').scanSync({ cwd: root, onlyFiles: false, dot: true })]).toEqual([]);
  });
});
