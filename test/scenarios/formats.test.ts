// Homes and settings as every landed format left them: each is upgraded, used and taken out again.
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { MIGRATIONS } from '../../src/store/journal/schema.ts';
import { temporaryHome } from '../support/home.ts';
import { Program } from '../support/program.ts';

const FIXTURES = new URL('../fixtures/', import.meta.url).pathname;
const FORMATS = MIGRATIONS.map((_step, at) => at + 1);
/** A home, and the settings of five clients, as 0.1.0 wrote them. `@HOME@` is the user's home. Never edit it: another version gets its own. */
const FILES = JSON.parse(readFileSync(`${FIXTURES}homes/0.1.0.json`, 'utf8')) as Record<string, string>;
const BEFORE = '.before-parley';

interface Told {
  id: string;
  body: string;
}

/** That home, with a ledger of this format. */
function storedHome(format: number): Program {
  const home = temporaryHome();
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(`${home}/${path}`), { recursive: true, mode: 0o700 });
    writeFileSync(`${home}/${path}`, text.replaceAll('@HOME@', home), { mode: 0o600 });
  }
  writeLedger(home, readFileSync(`${FIXTURES}ledger/v${format}.sql`, 'utf8'));
  return new Program(home, { XDG_RUNTIME_DIR: temporaryHome() });
}

function writeLedger(home: string, sql: string): void {
  const db = new Database(`${home}/.parley/ledger.db`);
  db.run('PRAGMA journal_mode = WAL');
  db.run(sql);
  db.close();
  writeFileSync(`${home}/.parley/ledger.db.id`, 'fixture-generation');
}

describe('a home of 0.1.0 with a ledger of format', () => {
  it.each(FORMATS)('%d is upgraded, used and taken out of the clients again', async (format) => {
    const parley = storedHome(format);
    expect(await parley.json<Told[]>(['inbox'], { as: 'bob' })).toMatchObject([{ body: 'message number 1' }]);
    const { id } = await parley.json<Told>(['send', '@bob', 'after the upgrade'], { as: 'alice' });
    const drained = await parley.json<Told[]>(['drain'], { as: 'bob' });
    expect(drained.map(({ body }) => body)).toEqual(['message number 1', 'after the upgrade']);
    expect((await parley.run(['trace', id])).out).toContain('acknowledged');
    const history = await parley.json<Told[]>(['history'], { as: 'bob' });
    expect(history.map(({ body }) => body)).toContain('message number 2');
    const found = await parley.run(['doctor']);
    expect(found.out).toContain(`the ledger is intact (format ${MIGRATIONS.length})`);
    expect((await parley.run(['install', '--uninstall', '--yes'])).code).toBe(0);
    for (const path of Object.keys(FILES).filter((name) => `${name}${BEFORE}` in FILES)) {
      expect([path, readFileSync(`${parley.home}/${path}`, 'utf8')]).toEqual([path, FILES[`${path}${BEFORE}`] ?? '']);
    }
    const made = ['.claude.json', '.codex/hooks.json', '.kimi/mcp.json', '.local/share/parley/installed.json'];
    expect(made.filter((path) => existsSync(`${parley.home}/${path}`))).toEqual([]);
  });

  it.each(FORMATS)('%d that a build with other steps made is named by doctor', async (format) => {
    const parley = storedHome(format);
    const db = new Database(`${parley.home}/.parley/ledger.db`);
    db.run('DROP INDEX copies_held');
    db.close();
    const { out } = await parley.run(['doctor']);
    expect(out).toContain(`the ledger says format ${format}, but copies_held in it is not of that format`);
  });
});
