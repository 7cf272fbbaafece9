import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { openHome } from '../../store/home.ts';
import type { HistoryPage, SessionMessage, SessionStore } from '../../core/ports/session-store.ts';
import { ControlFile, controlPlaces } from './config.ts';
import { HistoryFiles } from './history-files.ts';
import { SessionHistory } from './history.ts';

interface Rig {
  home: string;
  store: SessionStore;
  files: HistoryFiles;
  history: SessionHistory;
  /** The same home, as the next process sees it. */
  again: () => Promise<Rig>;
}

async function aHome(home = temporaryHome()): Promise<Rig> {
  const { file, folder } = controlPlaces({ HOME: home });
  writeFileSync(
    file,
    JSON.stringify({ sessions: { web: { path: '/work/web', topic_id: 7 }, api: { path: '/work/api' } } }),
  );
  const store = openHome('parley', `${home}/.parley`, 'normal', true).journal.sessionStore();
  const files = new HistoryFiles(store, new ControlFile(file, folder));
  const history = new SessionHistory(store, files, `${folder}/history`);
  await history.open();
  return { home, store, files, history, again: () => aHome(home) };
}

/** Unix seconds of a moment by the clock on the wall. */
const at = (year: number, month: number, day: number, hour: number, minute = 0): number =>
  Math.floor(new Date(year, month - 1, day, hour, minute).getTime() / 1000);

const said = (text: string, fields: Partial<SessionMessage> = {}): Omit<SessionMessage, 'id'> => ({
  session: 'web',
  ts: at(2026, 1, 16, 14),
  from: 'human',
  text,
  ...fields,
});

const messages = (home: string, topic = '7'): string => `${home}/.ccc/history/${topic}/messages`;
const linesIn = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('the history files', () => {
  it('are one per hour and topic, named by the clock on the wall [CCC-139, CCC-140]', async () => {
    const { home, store, files } = await aHome();
    await store.record(said('one', { ts: at(2026, 1, 16, 14, 59) }));
    await store.record(said('two', { ts: at(2026, 1, 16, 15, 0) }));
    await store.record(said('three', { session: 'api', ts: at(2026, 1, 16, 15, 0) }));
    await files.publish();
    expect(readdirSync(messages(home)).sort()).toEqual(['2026-01-16-14.jsonl', '2026-01-16-15.jsonl']);
    expect(linesIn(`${messages(home, 'session-api')}/2026-01-16-15.jsonl`)).toMatchObject([{ text: 'three' }]);
  });

  it('have one message per line, for their user only [CCC-141]', async () => {
    const { home, store, files } = await aHome();
    const first = await store.record(said('one\ntwo', { username: 'me' }));
    await files.publish();
    const path = `${messages(home)}/2026-01-16-14.jsonl`;
    expect(readFileSync(path, 'utf8')).toBe(
      `{"id":${first.id},"ts":${first.ts},"from":"human","text":"one\\ntwo","username":"me"}\n`,
    );
    expect([statSync(path).mode & 0o777, statSync(messages(home)).mode & 0o777]).toEqual([0o600, 0o700]);
  });

  it('only grow: a line that changed is written again [CCC-141, CCC-142, CCC-189]', async () => {
    const { home, store, files } = await aHome();
    const prompt = await store.enqueue(said('run', { from: 'api', agent: 'ci' }), {
      key: 'k',
      raw: false,
      at: 0,
      deadline: null,
    });
    await files.publish();
    await store.end(prompt.id, 'failed', 'the client is gone', 'failed');
    await files.publish();
    const path = `${messages(home)}/2026-01-16-14.jsonl`;
    expect(linesIn(path)).toMatchObject([
      { id: prompt.id, text: 'run' },
      { id: prompt.id, text: 'run', status: 'failed', error: 'the client is gone' },
    ]);
  });

  it('have everything that was stored when `publish` returns, in order, once [CCC-187]', async () => {
    const { home, store, files } = await aHome();
    const path = `${messages(home)}/2026-01-16-14.jsonl`;
    await Promise.all(
      Array.from({ length: 300 }, async (_, count) => {
        const { id } = await store.record(said(`line ${count}`));
        await files.publish();
        expect(linesIn(path).map((line) => line['id'])).toContain(id);
      }),
    );
    const ids = linesIn(path).map((line) => Number(line['id']));
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    expect(ids).toHaveLength(300);
  });

  it('have a line once, however often the store fails to note it [CCC-187]', async () => {
    const { home, store, files } = await aHome();
    let failures = 0;
    const failing = new HistoryFiles(
      {
        unexported: (limit) => store.unexported(limit),
        exported: async (lines) => {
          if (failures-- > 0) throw new Error('the disk is full');
          await store.exported(lines);
        },
      },
      files.config,
    );
    await store.record(said('first'));
    await failing.publish();
    failures = 3;
    await store.record(said('second'));
    for (let count = 0; count < 3; count++) await expect(failing.publish()).rejects.toThrow('the disk is full');
    await failing.publish();
    expect(linesIn(`${messages(home)}/2026-01-16-14.jsonl`)).toMatchObject([{ text: 'first' }, { text: 'second' }]);
  });

  it('have whole lines again after a failure in the middle of one [CCC-187]', async () => {
    const { home, store, files } = await aHome();
    const path = `${messages(home)}/2026-01-16-14.jsonl`;
    let isFull = false;
    const failing = new HistoryFiles(
      {
        unexported: (limit) => store.unexported(limit),
        exported: async (lines) => {
          if (!isFull) return store.exported(lines);
          truncateSync(path, statSync(path).size - 10);
          throw new Error('the disk is full');
        },
      },
      files.config,
    );
    await store.record(said('first'));
    await failing.publish();
    isFull = true;
    await store.record(said('second'));
    await expect(failing.publish()).rejects.toThrow('the disk is full');
    isFull = false;
    await failing.publish();
    const [first = '', , second = ''] = readFileSync(path, 'utf8').split('\n');
    expect([JSON.parse(first), JSON.parse(second)]).toMatchObject([{ text: 'first' }, { text: 'second' }]);
  });

  it('have a line once, also after a crash between the file and the store [CCC-187]', async () => {
    const { home, store, files, again } = await aHome();
    for (let count = 0; count < 20; count++) await store.record(said(`line ${count} ${'x'.repeat(20_000)}`));
    const crashing = new HistoryFiles(
      {
        unexported: (limit) => store.unexported(limit),
        exported: async () => {
          throw new Error('killed');
        },
      },
      files.config,
    );
    await expect(crashing.publish()).rejects.toThrow('killed');
    await (await again()).files.publish();
    expect(linesIn(`${messages(home)}/2026-01-16-14.jsonl`)).toHaveLength(20);
  });

  it('are written while somebody edits the settings [CCC-187]', async () => {
    const { home, store, files } = await aHome();
    await store.record(said('one'));
    await files.publish();
    writeFileSync(`${home}/.ccc.json`, '{"sessions": {');
    await store.record(said('two'));
    await files.publish();
    expect(linesIn(`${messages(home)}/2026-01-16-14.jsonl`)).toHaveLength(2);
  });

  it('go on after a line that a crash cut off [CCC-187]', async () => {
    const { home, store, files } = await aHome();
    mkdirSync(messages(home), { recursive: true });
    const path = `${messages(home)}/2026-01-16-14.jsonl`;
    appendFileSync(path, '{"id":3,"ts":1,"from":"human","te');
    const { id } = await store.record(said('whole'));
    await files.publish();
    expect(JSON.parse(readFileSync(path, 'utf8').split('\n')[1] ?? '')).toMatchObject({ id, text: 'whole' });
  });
});

/** What the original wrote: the ids of its server grow, replies of its hooks have the id 1. */
function earlier(home: string, files: Record<string, object[]>, topic = '7'): void {
  mkdirSync(messages(home, topic), { recursive: true, mode: 0o755 });
  for (const [name, lines] of Object.entries(files))
    writeFileSync(`${messages(home, topic)}/${name}.jsonl`, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

const line = (id: number, text: string, fields: object = {}): object => ({
  id,
  ts: 1_705_412_345,
  from: 'api',
  text,
  ...fields,
});

describe('files of an earlier ccc', () => {
  it('are served with their ids, fields and order, and new ids are above them [CCC-186, CCC-188]', async () => {
    const home = temporaryHome();
    const voice = { from: 'human', type: 'voice', path: '/tmp/x.ogg', transcription: 'hi', odd: { deep: [1] } };
    earlier(home, {
      '2025-12-31-23': [line(410, 'old'), line(1, 're: old', { from: 'claude' })],
      '2026-01-01-00': [line(411, 'spoken', voice), line(412, 'y'.repeat(70_000)), line(413, 'last')],
    });
    const { store, files, history } = await aHome(home);
    const fresh = await store.record(said('ours'));
    await files.publish();
    expect(fresh.id).toBeGreaterThan(413);
    const all = await history.page('web', { after: undefined, limit: 100, from: undefined });
    expect(all.map(({ id }) => id)).toEqual([410, 1, 411, 412, 413, fresh.id]);
    expect(all[2]).toEqual({ id: 411, ts: 1_705_412_345, text: 'spoken', ...voice });
    expect(await history.page('web', { after: 0, limit: 2, from: undefined })).toEqual(all.slice(0, 2));
    expect(await history.page('web', { after: 411, limit: 2, from: undefined })).toEqual(all.slice(3, 5));
    expect(await history.page('web', { after: 412, limit: 9, from: undefined })).toEqual(all.slice(4));
    expect(await history.page('web', { after: undefined, limit: 2, from: undefined })).toEqual(all.slice(4));
    expect(await history.page('web', { after: undefined, limit: 5, from: 'claude' })).toEqual([all[1]] as never);
  });

  it('and our own lines are read up to what one answer holds, and none is left out between pages [CCC-204]', async () => {
    const home = temporaryHome();
    const long = 'x'.repeat(1024 * 1024);
    earlier(home, { '2026-01-01-00': Array.from({ length: 20 }, (_, at) => line(at + 1, long)) });
    const { store, files } = await aHome(home);
    for (let count = 0; count < 40; count++) await store.record(said(long));
    let read = 0;
    const counting = Object.assign(Object.create(store) as SessionStore, {
      history: async (page: HistoryPage) => {
        const lines = await store.history(page);
        read += lines.length;
        return lines;
      },
    });
    const history = new SessionHistory(counting, files, `${home}/.ccc/history`);
    await history.open();
    const idsOf = async (after: number | undefined): Promise<number[]> => {
      read = 0;
      const ids = (await history.page('web', { after, limit: 10_000, from: undefined })).map(({ id }) => Number(id));
      expect(read).toBeLessThanOrEqual(17);
      expect(ids.length).toBeLessThanOrEqual(16);
      return ids;
    };
    const found: number[] = [];
    for (let page = await idsOf(0); page.length > 0; page = await idsOf(page.at(-1))) found.push(...page);
    expect(found).toHaveLength(60);
    expect(found.slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
    expect(await idsOf(undefined)).toEqual(found.slice(-16));
  });

  it('give the last message of a session that has said nothing since, however long it is [CCC-93]', async () => {
    const home = temporaryHome();
    earlier(home, { '2026-01-01-00': [line(1, 'a'), line(2, 'z'.repeat(30_000))] });
    const { history } = await aHome(home);
    expect(await history.last('web')).toMatchObject({ id: 2, text: 'z'.repeat(30_000) });
    expect(await history.last('api')).toBeNull();
  });

  it('are not read whole at the start, nor for the last message [CCC-186, CCC-93]', async () => {
    const home = temporaryHome();
    mkdirSync(messages(home), { recursive: true });
    const many = Array.from({ length: 2000 }, (_, at) => JSON.stringify(line(at + 1, 'x'.repeat(400)))).join('\n');
    // Sparse: 1 TB that nobody could read.
    const path = `${messages(home)}/2026-01-01-00.jsonl`;
    const { openSync, ftruncateSync, writeSync, closeSync } = await import('node:fs');
    const fd = openSync(path, 'w');
    const size = 2 ** 40;
    ftruncateSync(fd, size);
    writeSync(fd, `\n${many}\n`, size);
    closeSync(fd);
    const { history } = await aHome(home);
    expect(await history.last('web')).toMatchObject({ id: 2000 });
    const newest = await history.page('web', { after: undefined, limit: 3, from: undefined });
    expect(newest.map(({ id }) => id)).toEqual([1998, 1999, 2000]);
  });

  it('leave lines out that are none [CCC-186]', async () => {
    const home = temporaryHome();
    mkdirSync(messages(home), { recursive: true });
    const bad = ['nonsense', '{"id":"x"}', '[]', 'null', '{"id":3,"ts"'];
    writeFileSync(`${messages(home)}/2026-01-01-00.jsonl`, `${JSON.stringify(line(1, 'good'))}\n${bad.join('\n')}`);
    writeFileSync(`${messages(home)}/notes.txt`, 'mine');
    const { history } = await aHome(home);
    expect(await history.page('web', { after: 0, limit: 9, from: undefined })).toMatchObject([{ text: 'good' }]);
  });

  it('keep new ids above their own when the home of Parley is lost [CCC-54]', async () => {
    const first = await aHome();
    const { id } = await first.store.record(said('one'));
    await first.files.publish();
    const { rmSync, cpSync } = await import('node:fs');
    const home = temporaryHome();
    cpSync(`${first.home}/.ccc`, `${home}/.ccc`, { recursive: true });
    rmSync(`${home}/.parley`, { recursive: true, force: true });
    const next = await aHome(home);
    expect((await next.store.record(said('two'))).id).toBeGreaterThan(id);
    const page = await next.history.page('web', { after: 0, limit: 9, from: undefined });
    expect(page.map(({ text }) => text)).toEqual(['one', 'two']);
  });
});
