import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { anEntry } from '../../../test/support/mail.ts';
import { SendKey } from '../../protocol/names.ts';
import type { Entry } from '../ledger/ledger.ts';
import { sheetsAfter, TrayLog } from './in-tray-log.ts';

const NOTHING = { round: 0, bytes: 0 };
const LIFE = 'a ledger';

function entry(rest: Partial<Entry> = {}): Entry {
  const one = anEntry({ body: `Grüße — "mit" \n Zeilen ${Math.random()}` }, rest);
  return { ...one, text: JSON.stringify(one.message) };
}

function found(root: string, after = NOTHING, life = LIFE): string[][] {
  return [...sheetsAfter(root, life, after)].map(({ entries }) => entries.map(({ message }) => message.id));
}

function ids(...sheets: Entry[][]): string[][] {
  return sheets.map((entries) => entries.map(({ message }) => message.id));
}

describe('the log of an in-tray', () => {
  it('gives back every sheet as it was, in order, from any place on', () => {
    const root = temporaryHome();
    const log = new TrayLog(root, LIFE, NOTHING);
    const first = [entry({ fresh: true }), entry({ key: SendKey.parse('k1'), firstTried: '2026-01-01T00:00:00.000Z' })];
    const second = [entry()];
    const place = log.append(first);
    log.append(second);
    const sheets = [...sheetsAfter(root, LIFE, NOTHING)];
    expect(sheets.map(({ entries }) => entries)).toEqual([first, second]);
    expect(sheets[0]?.place).toEqual(place);
    expect(found(root, place)).toEqual(ids(second));
  });

  it('ends where a sheet was not written to its end, wherever that is', () => {
    const root = temporaryHome();
    const log = new TrayLog(root, LIFE, NOTHING);
    const [first, second] = [[entry()], [entry()]];
    const { bytes } = log.append(first);
    const end = log.append(second).bytes;
    const whole = readFileSync(`${root}/ledger.db.tray`);
    for (let cut = bytes; cut < end; cut += 1) {
      const torn = Buffer.from(whole);
      torn.fill(0, cut);
      writeFileSync(`${root}/ledger.db.tray`, torn);
      expect(found(root)).toEqual(ids(first));
      writeFileSync(`${root}/ledger.db.tray`, whole.subarray(0, cut));
      expect(found(root)).toEqual(ids(first));
    }
  });

  it('believes no sheet in which a byte is not as it was written', () => {
    const root = temporaryHome();
    const { bytes } = new TrayLog(root, LIFE, NOTHING).append([entry()]);
    const whole = readFileSync(`${root}/ledger.db.tray`);
    for (let at = 0; at < bytes; at += 1) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 0x04;
      writeFileSync(`${root}/ledger.db.tray`, changed);
      expect(found(root)).toEqual([]);
    }
  });

  it('takes nothing of an earlier round, of a later use, or of another ledger for news', () => {
    const root = temporaryHome();
    const log = new TrayLog(root, LIFE, NOTHING);
    log.append([entry()]);
    const place = log.append([entry()]);
    log.beginAnew(LIFE, () => {});
    expect(found(root, place)).toEqual([]);
    const news = [entry()];
    log.append(news);
    expect(found(root, place)).toEqual(ids(news));
    expect(found(root)).toEqual([]);
    expect(found(root, place, 'another ledger')).toEqual([]);
    expect(new TrayLog(root, LIFE, { round: 2, bytes: 0 }).append(news)).toEqual({
      round: 3,
      bytes: expect.any(Number) as number,
    });
    expect(found(root, place)).toEqual([]);
  });

  it('goes on from the end of one round to the next, which was begun when all of the first was entered', () => {
    const root = temporaryHome();
    const log = new TrayLog(root, LIFE, NOTHING);
    const place = log.append([entry()]);
    log.beginAnew(LIFE, () => {});
    const [second, third] = [[entry()], [entry()]];
    const later = log.append(second);
    log.append(third);
    expect(found(root, place)).toEqual(ids(second, third));
    expect(found(root, later)).toEqual(ids(third));
  });

  it('is for its owner alone, and leaves no file behind', () => {
    const root = temporaryHome();
    const log = new TrayLog(root, LIFE, NOTHING);
    log.append([entry()]);
    expect(statSync(`${root}/ledger.db.tray`).mode & 0o777).toBe(0o600);
    log.remove();
    expect(existsSync(`${root}/ledger.db.tray`)).toBe(false);
  });
});
