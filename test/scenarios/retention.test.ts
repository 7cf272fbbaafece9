import { describe, expect, it } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { Program } from '../support/program.ts';

interface Told {
  id: string;
  body: string;
}

describe('what is settled', () => {
  it('loses its body when its time is over, without anybody asking for it, and keeps its trace', async () => {
    const parley = await new Program().init('alice', 'bob');
    const { id } = await parley.json<Told>(['send', '@bob', 'a passing remark']);
    await parley.run(['send', '@bob', 'still waiting']);
    await parley.run(['take', id], { as: 'bob' });
    await parley.run(['inbox'], { as: 'bob' });
    writeFileSync(`${parley.home}/.parley/pruned`, String(Date.now() - 25 * 60 * 60 * 1000));
    const hasty = new Program(parley.home, { PARLEY_KEEP_BODIES: '0' });
    expect(await hasty.json<Told[]>(['inbox'], { as: 'bob' })).toMatchObject([{ body: 'still waiting' }]);
    const rows = await hasty.json<Told[]>(['history']);
    expect(rows.map((row) => row.body)).toEqual(['still waiting', '']);
    expect((await hasty.run(['trace', id])).out).toContain('acknowledged');
  });

  it('leaves no word of it on the disk once it is forgotten', async () => {
    const parley = await new Program(undefined, { PARLEY_KEEP_BODIES: '0' }).init('alice');
    await parley.run(['send', '@alice', 'xylophone quartz']);
    await parley.run(['search', 'xylophone']);
    await parley.run(['drain']);
    await parley.run(['prune']);
    const ledger = `${parley.home}/.parley/ledger.db`;
    const bytes = ['', '-wal'].map((part) => readText(`${ledger}${part}`)).join('');
    expect(bytes.includes('SQLite')).toBe(true);
    expect(bytes.includes('xylophone')).toBe(false);
  });
});

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
