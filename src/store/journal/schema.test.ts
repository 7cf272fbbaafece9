// A journal is read by later versions of the program that wrote it.
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, anEntry, bob, carol, LOUD, QUIET } from '../../../test/support/mail.ts';
import type { MessageId, SendKey } from '../../core/names.ts';
import { MIGRATIONS } from './schema.ts';
import { openSqliteJournal } from './sqlite.ts';
import type { SqliteJournal } from './sqlite.ts';

const V1 = readFileSync(`${import.meta.dir}/../../../test/fixtures/ledger/v1.sql`, 'utf8');
const ONE = MIGRATIONS.slice(0, 1);
/** What the next format may look like. */
const NEXT = [...MIGRATIONS, "ALTER TABLE messages ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"];

const id = (n: number): MessageId => `0000000${n}-0000-4000-8000-000000000000` as MessageId;

/** A home with a journal of format 1, as an older version left it. */
function oldHome(): string {
  const home = temporaryHome();
  const db = new Database(`${home}/ledger.db`);
  db.run('PRAGMA journal_mode = WAL');
  db.run(V1);
  db.close();
  writeFileSync(`${home}/ledger.db.id`, 'fixture-generation');
  return home;
}

function open(home: string, migrations?: readonly string[]): SqliteJournal {
  const path = `${home}/ledger.db`;
  return openSqliteJournal({ path, durability: 'normal', ...(migrations && { migrations }) });
}

function schemaOf(path: string): string[] {
  const db = new Database(path, { readonly: true });
  const rows = db.query<{ sql: string }, []>('SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name').all();
  db.close();
  return rows.map(({ sql }) => sql.replaceAll(/\s+/g, ' ').replaceAll(/\( | \)/g, (sign) => sign.trim()));
}

/** A released step is never edited: homes that have run it do not run it again. A change is a new step, and a new line here. */
const LANDED = ['06d1bb52ed361b91', '49f63c2ae24632bf', '2e340565671bc84e', '126da7a80ede6a91', '44536e1c1e3578dc'];

it('no released step of the format was edited', () => {
  const hashes = MIGRATIONS.map((step) => new Bun.CryptoHasher('sha256').update(step).digest('hex').slice(0, 16));
  expect(hashes).toEqual(LANDED);
});

describe('a ledger of format 1', () => {
  it('is read correctly by this version', async () => {
    const ledger = open(oldHome());
    expect((await ledger.history({ limit: 10 })).map(({ message }) => message.id)).toEqual([5, 4, 3, 2, 1].map(id));
    expect((await ledger.history({ agent: bob, limit: 10 })).map(({ seq }) => seq)).toEqual([5, 4, 3, 2, 1]);
    expect((await ledger.underKey(alice, 'key one' as SendKey))?.message.id).toBe(id(1));
    expect(await ledger.copy(bob, id(1))).toMatchObject({ state: 'stored', attention: LOUD });
    expect(await ledger.copy(carol, id(2))).toMatchObject({ state: 'stored', attention: QUIET });
    expect(await ledger.copy(alice, id(3))).toMatchObject({ state: 'held', owner: 'bearer.fixture' });
    expect(await ledger.copy(bob, id(4))).toMatchObject({ state: 'gone' });
    expect(await ledger.copy(bob, id(2))).toEqual({
      id: id(2),
      mailbox: bob,
      state: 'settled',
      attempt: 0,
      attention: LOUD,
      owner: null,
      bearer: false,
      until: null,
      disposition: 'responded',
      settledAt: '2026-01-01T10:00:02.000Z',
      settledBy: { reply: id(3) },
      keep: true,
    });
    expect((await ledger.trace(id(5)))?.copies[0]?.receipts).toEqual([
      { step: 'shown', at: '2026-01-01T10:00:05.000Z', evidence: { line: 7, way: 'hook' } },
    ]);
    expect((await ledger.exchange(id(2), 10)).map((message) => message.id)).toEqual([id(2), id(3)]);
    expect((await ledger.search('unicode', { limit: 10 })).map(({ message }) => message.id)).toEqual([id(3)]);
    expect((await ledger.search('message number', { limit: 10 })).map(({ seq }) => seq)).toEqual([4, 2, 1]);
    await ledger.close();
  });

  it('can be written by this version', async () => {
    const ledger = open(oldHome());
    expect((await ledger.accept(anEntry())).first).toBe(true);
    expect((await ledger.claim(bob, [id(1), id(2)], 'bearer.me', Date.now() + 1000)).won).toMatchObject([
      { id: id(1) },
    ]);
    expect((await ledger.abandoned()).map((copy) => copy.id)).toEqual([id(3)]);
    await ledger.close();
  });

  it('makes no obligations from old mail, and makes them from new mail', async () => {
    const ledger = open(oldHome());
    expect((await ledger.unentered(10)).copies).toEqual([]);
    const { message } = await ledger.accept(anEntry());
    expect((await ledger.unentered(10)).copies.map(({ copy }) => copy.id)).toEqual([message.id]);
    await ledger.close();
  });

  it('has exactly the format that the first step of this version makes', async () => {
    const [old, made] = [oldHome(), temporaryHome()];
    await open(made, ONE).close();
    expect(schemaOf(`${made}/ledger.db`)).toEqual(schemaOf(`${old}/ledger.db`));
  });
});

describe('a migration', () => {
  it('reaches the newest format, keeps everything, and leaves a copy of the old journal beside it', async () => {
    const home = oldHome();
    const ledger = open(home, NEXT);
    expect(await ledger.history({ limit: 10 })).toHaveLength(5);
    expect((await ledger.search('unicode', { limit: 10 })).map(({ message }) => message.id)).toEqual([id(3)]);
    await ledger.accept(anEntry());
    await ledger.close();
    const db = new Database(`${home}/ledger.db`);
    expect(db.query('SELECT DISTINCT colour FROM messages').all()).toEqual([{ colour: 'red' }]);
    expect(db.query('PRAGMA user_version').get()).toEqual({ user_version: NEXT.length });
    db.close();
    expect(statSync(`${home}/ledger.db.v1`).mode & 0o777).toBe(0o600);
    const copy = openSqliteJournal({ path: `${home}/ledger.db.v1`, durability: 'normal', migrations: ONE });
    expect(await copy.history({ limit: 10 })).toHaveLength(5);
    await copy.close();
  });

  it('copies also what is still in the write-ahead log of another process', async () => {
    const home = oldHome();
    const other = open(home, ONE);
    const { message } = await other.accept(anEntry());
    await open(home, NEXT).close();
    const copy = openSqliteJournal({ path: `${home}/ledger.db.v1`, durability: 'normal', migrations: ONE });
    expect(await copy.message(message.id)).toEqual(message);
    await copy.close();
    await other.close();
  });

  it('runs once: a later process leaves the copy alone', async () => {
    const home = oldHome();
    await open(home, NEXT).close();
    const copy = readFileSync(`${home}/ledger.db.v1`);
    await open(home, NEXT).close();
    expect(readFileSync(`${home}/ledger.db.v1`).equals(copy)).toBe(true);
    expect(readdirSync(home).filter((name) => name.startsWith('ledger.db.v'))).toEqual(['ledger.db.v1']);
  });

  it('that fails changes nothing, and the old version can still use the journal', async () => {
    const home = oldHome();
    expect(() => open(home, [...ONE, 'CREATE TABLE more (x); SELECT no_such_function()'])).toThrow();
    const ledger = open(home, ONE);
    expect(await ledger.history({ limit: 10 })).toHaveLength(5);
    await ledger.close();
    expect(schemaOf(`${home}/ledger.db`).join()).not.toContain('more');
  });
});

describe('a ledger of a newer format', () => {
  it('is refused by name and left as it is, byte for byte', async () => {
    const home = oldHome();
    await open(home, NEXT).close();
    const before = readFileSync(`${home}/ledger.db`);
    const files = readdirSync(home).toSorted();
    let refusal: unknown;
    try {
      open(home, ONE);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toMatchObject({ name: 'Refusal', code: 'newer_format' });
    expect(String(refusal)).toContain(`${home}/ledger.db`);
    expect(String(refusal)).toContain(`format ${NEXT.length}, this one knows 1`);
    expect(readFileSync(`${home}/ledger.db`).equals(before)).toBe(true);
    expect(readdirSync(home).toSorted()).toEqual(files);
  });
});
