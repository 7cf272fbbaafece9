import { anObligation, enterAll } from '../../../test/support/obligation-row.ts';
// Obligations with several processes at once, and with processes that die.
import { Database } from 'bun:sqlite';
import { describe, expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, anEntry, bob } from '../../../test/support/mail.ts';
import type { MessageId } from '../../core/names.ts';
import { PAGES } from './obligations.ts';
import { openSqliteJournal } from './sqlite.ts';
import type { SqliteJournal } from './sqlite.ts';

type Act = 'claim' | 'change' | 'end' | 'enter' | 'dieChanging' | 'dieEntering';

const CHILD = `${import.meta.dir}/../../../test/support/obligation.child.ts`;

function aLedger(): { path: string; ledger: SqliteJournal } {
  const path = `${temporaryHome()}/ledger.db`;
  return { path, ledger: openSqliteJournal({ path, durability: 'normal' }) };
}

/** Starts processes that begin when all are ready. Returns what each one did; null for one that died. */
async function together(path: string, act: Act, id: MessageId, many: number): Promise<unknown[]> {
  const children = Array.from({ length: many }, (_, n) => {
    const program = [process.execPath, CHILD, path, act, id, `p${n}`];
    const child = Bun.spawn(program, { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' });
    return { child, lines: linesOf(child.stdout) };
  });
  for (const { lines } of children) await lines.next();
  for (const { child } of children) await child.stdin.end();
  return Promise.all(
    children.map(async ({ child, lines }) => {
      const { value } = await lines.next();
      await child.exited;
      return value ? (JSON.parse(value) as { did: unknown }).did : null;
    }),
  );
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
      yield text.slice(0, at);
      text = text.slice(at + 1);
    }
  }
  return undefined;
}

describe('of several processes', () => {
  it('one of 50 racing claimers gets the claim, and all others learn who has it', async () => {
    const { path, ledger } = aLedger();
    const { id } = anObligation();
    const told = await together(path, 'claim', id, 5);
    const holders = new Set(told.flat());
    expect(told.flat()).toHaveLength(50);
    expect([...holders]).toEqual([(await ledger.eventClaim(id, 0))?.holder]);
    await ledger.close();
  });

  it('none overwrites what another changed', async () => {
    const { path, ledger } = aLedger();
    const obligation = anObligation();
    await ledger.addObligation(obligation);
    await together(path, 'change', obligation.id, 3);
    expect((await ledger.obligation(bob, obligation.id))?.returns).toBe(150);
    await ledger.close();
  });

  it('one ends an obligation, and the others see its end', async () => {
    const { path, ledger } = aLedger();
    const obligation = anObligation();
    await ledger.addObligation(obligation);
    const ended = await together(path, 'end', obligation.id, 4);
    expect(ended.filter(Boolean)).toHaveLength(1);
    expect((await ledger.obligation(bob, obligation.id))?.ended?.by).toEqual({ by: `p${ended.indexOf(true)}` });
    await ledger.close();
  });

  it('exactly one enters each obligation', async () => {
    const { path, ledger } = aLedger();
    for (let n = 0; n < 20; n += 1) await ledger.accept(anEntry());
    const { id } = anObligation();
    const entered = await together(path, 'enter', id, 4);
    expect(entered.filter(Boolean).length).toBeGreaterThanOrEqual(1);
    const obligations = await ledger.owed(bob, { limit: 100 });
    expect(obligations).toHaveLength(20);
    expect(new Set(obligations.map(({ note }) => note)).size).toBe(1);
    await ledger.close();
  });

  it('one that dies during a change leaves the obligation unchanged, and blocks no other', async () => {
    const { path, ledger } = aLedger();
    const obligation = anObligation();
    await ledger.addObligation(obligation);
    expect(await together(path, 'dieChanging', obligation.id, 1)).toEqual([null]);
    expect(await ledger.obligation(bob, obligation.id)).toEqual(obligation);
    expect((await ledger.changeObligation(bob, obligation.id, (one) => ({ ...one, note: 'alive' })))?.note).toBe(
      'alive',
    );
    await ledger.close();
  });

  it('one that dies during an enter has entered nothing, and the next enters all', async () => {
    const { path, ledger } = aLedger();
    const { message } = await ledger.accept(anEntry());
    expect(await together(path, 'dieEntering', message.id, 1)).toEqual([null]);
    expect(await ledger.obligation(bob, message.id)).toBeNull();
    expect(await enterAll(ledger)).toHaveLength(1);
    await ledger.close();
  });

  it('obligations, claims and sessions are still there after a restart', async () => {
    const { path, ledger } = aLedger();
    const obligation = anObligation({ kind: 'obligation', due: 5 });
    const claim = { key: obligation.id, holder: bob, until: 100, reserved: true };
    const session = { id: 's', tokenHash: 'h', identities: [bob], roles: [], streams: [], threads: [], seen: 1 };
    await ledger.addObligation(obligation);
    await ledger.claimEvent(claim, 0);
    await ledger.saveSession(session);
    await ledger.close();
    const again = openSqliteJournal({ path, durability: 'normal' });
    expect(await again.owed(bob, { limit: 9 })).toEqual([obligation]);
    expect(await again.blocking(alice, { limit: 9 })).toEqual([obligation]);
    expect(await again.nextDue()).toBe(5);
    expect(await again.eventClaim(obligation.id, 0)).toEqual(claim);
    expect(await again.sessions()).toEqual([session]);
    await again.close();
  });
});

it.each(Object.entries(PAGES))(
  'a question of %s reads its own index from one end, however many duties there are',
  async (_name, { sql, index }) => {
    const { path, ledger } = aLedger();
    const db = new Database(path, { readonly: true });
    const plan = db.query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`).all();
    const said = plan.map(({ detail }) => detail).join('\n');
    expect(said).toMatch(new RegExp(`SEARCH duties USING (COVERING )?INDEX ${index} \\(.*[=<>]`));
    expect(said).not.toMatch(/SCAN duties|TEMP B-TREE/);
    db.close();
    await ledger.close();
  },
);
