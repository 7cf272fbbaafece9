import { describe, expect, it } from 'bun:test';
import { existsSync, readdirSync } from 'node:fs';
import { Program } from '../support/program.ts';

interface Sent {
  id: string;
  home: string;
}

describe('one address book over several homes', () => {
  it('reaches an agent of the Backchannel home, who drains it there, and the trace shows it', async () => {
    const parley = await new Program().init('alice');
    await parley.run(['init', 'codex-1'], { name: 'bch' });
    const sent = await parley.json<Sent>(['send', '@codex-1', 'hi']);
    expect(sent.home).toBe('bch');
    expect((await parley.run(['drain'], { name: 'bch' })).out).toContain('hi');
    expect((await parley.run(['trace', sent.id])).out).toContain('settled');
  });

  it('refuses a name that stands in both, and takes its full form', async () => {
    const parley = await new Program().init('alice', 'twin');
    await parley.run(['init', 'twin'], { name: 'bch' });
    const doubtful = await parley.run(['send', '@twin', 'which one?']);
    expect(doubtful).toMatchObject({ code: 64, out: '' });
    expect(doubtful.err).toContain('@twin%parley or @twin%bch');
    const sent = await parley.json<Sent>(['send', '@twin%bch', 'you']);
    expect(sent).toMatchObject({ home: 'bch', to: '@twin' });
    expect(readdirSync(`${parley.home}/.backchannel/spool/twin/new`)).toEqual([`${sent.id}.json`]);
  });

  it('names every home in history', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['init', 'codex-1'], { name: 'bch' });
    await parley.run(['send', '@bob', 'one']);
    await parley.run(['send', '@codex-1', 'two']);
    const rows = await parley.json<{ home: string; body: string }[]>(['history']);
    expect(rows.map(({ home, body }) => `${home}: ${body}`)).toEqual(['bch: two', 'parley: one']);
  });

  it('makes no Backchannel home for somebody who has none', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['send', '@bob', 'hi']);
    expect(existsSync(`${parley.home}/.backchannel`)).toBe(false);
  });
});
