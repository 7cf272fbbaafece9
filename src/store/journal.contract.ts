import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { alice, aKey, aMessage, anEntry, anId, bob, carol, copiesFor, LOUD, QUIET } from '../../test/support/mail.ts';
import type { Message } from '../core/message.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { FIRST } from '../core/ports/journal.ts';
import type {
  CopyNumber,
  Acceptance,
  CopyRecord,
  CopyState,
  Entry,
  HistoryRow,
  MailboxJournal,
  Settlement,
} from '../core/ports/journal.ts';

export interface OpenLedger {
  journal: MailboxJournal;
  now(): number;
  /** Moves the clock. */
  pass(ms: number): void;
  close(): Promise<void>;
}

const LEASE = 30_000;
const ME = 'bearer.me';
const OTHER = 'bearer.other';
/** A holder from before the machine restarted. */
const DEAD = '00000000.1.1.1.x';
const DONE: Settlement = { disposition: 'acknowledged', by: { test: true } };

/** Texts that a search engine could take for its query language. */
const SIGNS = ['"', '""', "'", '*', '***', '(', ')', '^', '-', ':', '{', '\\', '\0', ' ', '', '\ud800'];
const HOSTILE = [
  'a"b',
  'body:x',
  'NEAR(x',
  '^first',
  '-minus',
  'x OR y',
  'say "x',
  'NUL\0NUL',
  "'; DROP TABLE words; --",
];

/** The promises of every journal. Each sentence of core/ports/journal.ts is a test here. */
export function journalContract(name: string, open: () => Promise<OpenLedger>): void {
  describe(`the ${name} journal`, () => {
    let here: OpenLedger;
    let journal: MailboxJournal;
    beforeEach(async () => {
      here = await open();
      ({ journal } = here);
    });
    afterEach(() => here.close());

    const until = (): number => here.now() + LEASE;
    async function accepted(fields: Partial<Message> = {}, ...to: AgentName[]): Promise<MessageId> {
      const copies = copiesFor(...(to.length > 0 ? to : [bob]));
      return (await journal.accept(anEntry(fields, { copies }))).message.id;
    }
    async function heldBy(owner: string): Promise<MessageId> {
      const id = await accepted();
      await journal.claim(bob, [id], owner, until());
      return id;
    }
    async function settled(fields: Partial<Message> = {}, ...to: AgentName[]): Promise<MessageId> {
      const id = await accepted(fields, ...to);
      for (const mailbox of to.length > 0 ? to : [bob]) {
        await journal.claim(mailbox, [id], ME, until());
        await journal.settle(mailbox, ME, [id], DONE);
      }
      return id;
    }
    async function stateOf(id: MessageId, mailbox = bob): Promise<CopyState | undefined> {
      return (await journal.copy(mailbox, id))?.state;
    }

    describe('when it accepts', () => {
      it('stores an entry in one transaction, with a copy for every recipient', async () => {
        const entry = anEntry({}, { copies: [...copiesFor(bob), { mailbox: carol, attention: QUIET }] });
        expect(await journal.accept(entry)).toEqual({ message: entry.message, copies: entry.copies, first: true });
        expect(await journal.message(entry.message.id)).toEqual(entry.message);
        expect(await journal.copy(carol, entry.message.id)).toEqual({
          id: entry.message.id,
          mailbox: carol,
          attention: QUIET,
          state: 'stored',
          attempt: 0,
          owner: null,
          bearer: false,
          until: null,
          disposition: null,
          settledAt: null,
          settledBy: null,
          keep: false,
        });
      });

      it('answers a known key with the earlier entry [BC-10]', async () => {
        const key = aKey();
        const { message } = await journal.accept(anEntry({}, { key }));
        const again = await journal.accept(anEntry({}, { key, copies: copiesFor(carol) }));
        expect([again.first, again.message, again.copies.length]).toEqual([false, message, 1]);
        expect(again.copies[0]).toMatchObject({ mailbox: bob, attention: LOUD });
        expect(await journal.underKey(alice, key)).toEqual(again);
        expect(await journal.underKey(bob, key)).toBeNull();
      });

      it('answers a known id with the earlier entry, and adds no copy', async () => {
        const entry = anEntry();
        await journal.accept(entry);
        const again = await journal.accept({ ...entry, copies: copiesFor(carol) });
        expect([again.first, again.copies.map((copy) => copy.mailbox)]).toEqual([false, [bob]]);
        expect(await journal.copy(carol, entry.message.id)).toBeNull();
      });

      it('answers many concurrent sends of one key with the same message [BC-10]', async () => {
        const key = aKey();
        const answers = await Promise.all(Array.from({ length: 20 }, () => journal.accept(anEntry({}, { key }))));
        expect(answers.filter(({ first }) => first)).toHaveLength(1);
        expect(new Set(answers.map(({ message }) => message.id)).size).toBe(1);
      });

      it.each([
        ['body', { body: 'another text' }],
        ['recipient', { to: '@carol' }],
        ['priority', { priority: 'urgent' }],
        ['scope', { scope: 'org/repo' }],
        ['thread', { thread: 'another' }],
        ['list of refs', { refs: ['a.ts'] }],
        ['intent', { parley: { v: 1 as const, intent: 'question' as const } }],
        ['signal', { parley: { v: 1 as const, signal: 'done' } }],
        ['reader whose duty it is about', { parley: { v: 1 as const, recipient: bob } }],
        ['message that it replaces', { parley: { v: 1 as const, replaces: 'another' as MessageId } }],
        ['aim', { parley: { v: 1 as const, aim: 'ambient' as const } }],
        ['obligation', { parley: { v: 1 as const, obligation: { blocks: 'halted' as const } } }],
        ['deadline', { parley: { v: 1 as const, deadline: '2100-01-01T00:00:00.000Z' } }],
      ])('refuses a known key with another %s', async (_what, fields) => {
        const other = aKey();
        await journal.accept(anEntry(fields, { key: other }));
        await expect(journal.accept(anEntry({}, { key: other }))).rejects.toMatchObject({ code: 'key_conflict' });
        expect((await journal.accept(anEntry(fields, { key: other }))).first).toBe(false);
        const key = aKey();
        const { message } = await journal.accept(anEntry({}, { key }));
        await expect(journal.accept(anEntry(fields, { key }))).rejects.toMatchObject({ code: 'key_conflict' });
        expect((await journal.underKey(alice, key))?.message).toEqual(message);
      });

      it('takes a deadline for the same if it is as far ahead of the send as the first one', async () => {
        const key = aKey();
        const due = (ts: string, deadline: string): Entry => anEntry({ ts, parley: { v: 1, deadline } }, { key });
        const first = await journal.accept(due('2026-01-01T10:00:00.000Z', '2026-01-01T10:30:00.000Z'));
        const again = await journal.accept(due('2026-01-01T10:05:00.000Z', '2026-01-01T10:35:00.250Z'));
        expect([again.first, again.message]).toEqual([false, first.message]);
        const other = journal.accept(due('2026-01-01T10:05:00.000Z', '2026-01-01T10:45:00.000Z'));
        await expect(other).rejects.toMatchObject({ code: 'key_conflict' });
      });

      it('answers a known key even after its body was pruned', async () => {
        const key = aKey();
        const { message } = await journal.accept(anEntry({}, { key }));
        await journal.claim(bob, [message.id], ME, until());
        await journal.settle(bob, ME, [message.id], DONE);
        here.pass(1000);
        await journal.prune({ bodies: here.now(), facts: null });
        const again = await journal.accept(anEntry({}, { key }));
        expect([again.first, again.pruned, again.message.id]).toEqual([false, true, message.id]);
      });
    });

    describe('when it adopts', () => {
      it('makes rows for waiting copies and for kept ones', async () => {
        const [waiting, kept] = [anEntry(), anEntry()];
        await journal.adopt([waiting], 'stored');
        await journal.adopt([kept], 'kept');
        expect(await stateOf(waiting.message.id)).toBe('stored');
        expect(await journal.copy(bob, kept.message.id)).toMatchObject({ state: 'settled', keep: true });
      });

      it('leaves existing rows alone, and adds missing ones', async () => {
        const id = await settled();
        const message = (await journal.message(id)) as Message;
        await journal.adopt([{ message, copies: copiesFor(bob, carol) }], 'stored');
        expect([await stateOf(id), await stateOf(id, carol)]).toEqual(['settled', 'stored']);
      });

      it('knows the keys of adopted messages [BC-10]', async () => {
        const entry = anEntry({}, { key: aKey() });
        await journal.adopt([entry], 'stored');
        expect((await journal.accept({ ...entry, message: { ...entry.message, id: anId() } })).message).toEqual(
          entry.message,
        );
      });

      it('ignores a key that already names another message, and still makes the row', async () => {
        const key = aKey();
        const { message } = await journal.accept(anEntry({}, { key }));
        const forged = anEntry({ body: 'forged' }, { key });
        await journal.adopt([forged], 'stored');
        expect((await journal.underKey(alice, key))?.message).toEqual(message);
        expect(await stateOf(forged.message.id)).toBe('stored');
      });
    });

    describe('when copies are claimed', () => {
      it('puts each id in exactly one list', async () => {
        const [free, mine, busy, spent, gone, unknown] = [
          await accepted(),
          await heldBy(ME),
          await heldBy(OTHER),
          await settled(),
          await accepted(),
          anId(),
        ];
        await journal.lost(bob, gone);
        const claimed = await journal.claim(bob, [free, mine, busy, spent, gone, unknown], ME, until());
        expect(claimed).toEqual({
          won: [
            { id: free, attempt: 0, attention: LOUD },
            // The other program may have put its file back; if not, the mailbox finds out.
            { id: gone, attempt: 1, attention: LOUD },
          ],
          busy: [mine, busy],
          spent: [spent],
          unknown: [unknown],
        });
      });

      it('lets exactly one of many racing claimers win [BC-6]', async () => {
        const id = await accepted();
        const claims = await Promise.all(
          Array.from({ length: 20 }, (_, n) => journal.claim(bob, [id], `bearer.${n}`, until())),
        );
        expect(claims.filter(({ won }) => won.length === 1)).toHaveLength(1);
        expect(claims.filter(({ busy }) => busy.length === 1)).toHaveLength(19);
      });

      it('counts an expired claim as an attempt, and lets the copy be claimed again [BC-6]', async () => {
        const id = await heldBy(OTHER);
        here.pass(LEASE);
        expect((await journal.claim(bob, [id], ME, until())).won).toEqual([{ id, attempt: 1, attention: LOUD }]);
        expect(await journal.copy(bob, id)).toMatchObject({ state: 'held', owner: ME, until: until() });
      });

      it('lets the copy of a dead owner be claimed again at once [BC-6]', async () => {
        const id = await heldBy(DEAD);
        expect((await journal.claim(bob, [id], ME, until())).won).toEqual([{ id, attempt: 1, attention: LOUD }]);
      });

      it('lists the copies that an owner holds in a mailbox', async () => {
        const [mine] = [await heldBy(ME), await heldBy(OTHER), await accepted()];
        expect((await journal.heldBy(bob, ME)).map(({ id }) => id)).toEqual([mine]);
        expect(await journal.heldBy(carol, ME)).toEqual([]);
        await journal.release(bob, ME, [mine], null, {});
        expect(await journal.heldBy(bob, ME)).toEqual([]);
      });

      it('renews the copies that an owner holds, and returns how many', async () => {
        const ids = [await heldBy(ME), await heldBy(ME), await heldBy(OTHER)];
        here.pass(LEASE - 1);
        expect(await journal.renew(bob, ME, until())).toBe(2);
        here.pass(1);
        const states = await Promise.all(ids.map((id) => journal.claim(bob, [id], 'bearer.third', until())));
        expect(states.map(({ won }) => won.length)).toEqual([0, 0, 1]);
        expect(await journal.renew(bob, 'bearer.nobody', until())).toBe(0);
      });
    });

    describe('when copies are settled', () => {
      it('ends them with disposition, evidence and time', async () => {
        const id = await heldBy(ME);
        const settlement: Settlement = { disposition: 'responded', by: { reply: 'r', attempt: 1 }, keep: true };
        expect(await journal.settle(bob, ME, [id], settlement)).toEqual([id]);
        expect(await journal.copy(bob, id)).toMatchObject({
          state: 'settled',
          disposition: 'responded',
          settledBy: { reply: 'r', attempt: 1 },
          settledAt: new Date(here.now()).toISOString(),
          keep: true,
          owner: null,
          until: null,
        });
      });

      it('shows nothing and settles nothing if one of them is not this owner’s', async () => {
        const [mine, theirs] = [await heldBy(ME), await heldBy(OTHER)];
        let shown = 0;
        expect(await journal.settle(bob, ME, [mine, theirs], DONE, () => (shown += 1))).toBeNull();
        expect([shown, await stateOf(mine), await stateOf(theirs)]).toEqual([0, 'held', 'held']);
      });

      it('settles nothing if showing fails', async () => {
        const id = await heldBy(ME);
        const fail = (): never => {
          throw new Error('EPIPE');
        };
        await expect(journal.settle(bob, ME, [id], DONE, fail)).rejects.toThrow('EPIPE');
        expect(await journal.copy(bob, id)).toMatchObject({ state: 'held', owner: ME });
      });
    });

    describe('when copies are released', () => {
      it('makes them wait again at once, and puts each back with its attention', async () => {
        const ids = [await heldBy(ME), await heldBy(OTHER)];
        const back: unknown[] = [];
        const released = await journal.release(bob, ME, ids, null, { because: 'busy' }, (...call) => back.push(call));
        expect(released).toEqual([ids[0] as MessageId]);
        expect(back).toEqual([[ids[0], LOUD]]);
        expect(await journal.copy(bob, ids[0] as MessageId)).toMatchObject({
          state: 'stored',
          owner: null,
          attempt: 0,
        });
        const [copy] = (await journal.trace(ids[0] as MessageId))?.copies ?? [];
        expect(copy?.receipts).toMatchObject([{ step: 'released', evidence: { because: 'busy' } }]);
      });

      it('delays them until a time, and lets a reader claim one by id before that', async () => {
        const id = await heldBy(ME);
        let back = 0;
        await journal.release(bob, ME, [id], here.now() + 60_000, { because: 'busy' }, () => (back += 1));
        expect(back).toBe(0);
        expect(await journal.abandoned()).toEqual([]);
        here.pass(60_000);
        expect((await journal.abandoned()).map((copy) => copy.id)).toEqual([id]);
        expect((await journal.claim(bob, [id], OTHER, until())).won).toEqual([{ id, attempt: 0, attention: LOUD }]);
      });

      it('releases nothing if putting back fails', async () => {
        const id = await heldBy(ME);
        const fail = (): never => {
          throw new Error('EIO');
        };
        await expect(journal.release(bob, ME, [id], null, {}, fail)).rejects.toThrow('EIO');
        expect(await stateOf(id)).toBe('held');
      });
    });

    describe('about abandoned copies', () => {
      it('lists those of dead owners and those with an expired lease, and no others', async () => {
        const [dead, old] = [await heldBy(DEAD), await heldBy(OTHER)];
        expect((await journal.abandoned()).map((copy) => copy.id)).toEqual([dead]);
        here.pass(LEASE);
        const live = await heldBy(ME);
        expect((await journal.abandoned()).map((copy) => copy.id).toSorted()).toEqual([dead, old].toSorted());
        expect(await stateOf(live)).toBe('held');
      });

      it('makes one wait again, counts the attempt and records a receipt [BC-6]', async () => {
        const id = await heldBy(DEAD);
        const [copy] = (await journal.abandoned()) as [CopyRecord];
        let back = 0;
        expect(await journal.restore(copy, () => (back += 1))).toBe(true);
        expect(back).toBe(1);
        expect(await journal.copy(bob, id)).toMatchObject({ state: 'stored', attempt: 1, owner: null, until: null });
        expect((await journal.trace(id))?.copies[0]?.receipts.map(({ step }) => step)).toEqual(['released']);
      });

      it('does not restore one that another reader has claimed meanwhile', async () => {
        const id = await heldBy(DEAD);
        const [copy] = (await journal.abandoned()) as [CopyRecord];
        await journal.claim(bob, [id], ME, until());
        let back = 0;
        expect(await journal.restore(copy, () => (back += 1))).toBe(false);
        expect([back, (await journal.copy(bob, id))?.owner]).toEqual([0, ME]);
      });

      it('restores nothing if putting back fails', async () => {
        const id = await heldBy(DEAD);
        const [copy] = (await journal.abandoned()) as [CopyRecord];
        const fail = (): never => {
          throw new Error('EIO');
        };
        await expect(journal.restore(copy, fail)).rejects.toThrow('EIO');
        expect(await journal.copy(bob, id)).toMatchObject({ state: 'held', attempt: 0 });
      });
    });

    describe('about other changes', () => {
      it('is fresh until `complete` records that every file has its row', async () => {
        expect((await journal.troubles()).fresh).toBe(true);
        await journal.complete();
        expect((await journal.troubles()).fresh).toBe(false);
      });

      it('withdraws the waiting copies as superseded, and returns each copy as it was', async () => {
        const id = await accepted({}, alice, bob, carol);
        await journal.claim(bob, [id], ME, until());
        await journal.claim(carol, [id], ME, until());
        await journal.release(carol, ME, [id], until(), {});
        const before = await journal.withdraw(id, { withdrawn: true });
        expect(before.map(({ mailbox, state, owner }) => [mailbox, state, owner])).toEqual([
          [alice, 'stored', null],
          [bob, 'held', ME],
          [carol, 'held', null],
        ]);
        expect(await journal.copy(alice, id)).toMatchObject({ state: 'settled', disposition: 'superseded' });
        expect([await stateOf(id, bob), await stateOf(id, carol)]).toEqual(['held', 'settled']);
      });

      it('records that another program took a copy', async () => {
        const id = await heldBy(ME);
        await journal.lost(bob, id);
        expect(await stateOf(id)).toBe('gone');
        expect((await journal.trace(id))?.copies[0]?.receipts.map(({ step }) => step)).toEqual(['taken_elsewhere']);
      });

      it('never changes a settled copy, and changes a gone one only by a claim', async () => {
        const [ended, gone] = [await settled(), await accepted()];
        await journal.lost(bob, gone);
        const before = [await journal.copy(bob, ended), await journal.copy(bob, gone)];
        here.pass(LEASE * 2);
        for (const id of [ended, gone]) {
          if (id === ended) await journal.claim(bob, [id], ME, until());
          await journal.release(bob, ME, [id], null, {});
          await journal.settle(bob, ME, [id], { disposition: 'failed', by: {} });
          await journal.renew(bob, ME, until());
          await journal.lost(bob, id);
          await journal.withdraw(id, {});
          await journal.accept({ message: (await journal.message(id)) as Message, copies: copiesFor(bob) });
        }
        expect([await journal.copy(bob, ended), await journal.copy(bob, gone)]).toEqual(before);
      });

      it('changes the attention of a waiting copy', async () => {
        const id = await accepted();
        await journal.reconsider(bob, id, QUIET);
        expect((await journal.copy(bob, id))?.attention).toEqual(QUIET);
        expect((await journal.claim(bob, [id], ME, until())).won[0]?.attention).toEqual(QUIET);
      });

      it('keeps every proven step of a copy with its evidence, in order', async () => {
        const id = await accepted({}, bob, carol);
        const at = new Date(here.now()).toISOString();
        await journal.record(bob, id, { step: 'offered', at, evidence: { way: 'hook' } });
        await journal.record(bob, id, { step: 'shown', at, evidence: { line: 7 } });
        const trace = await journal.trace(id);
        expect(trace?.message.id).toBe(id);
        expect(trace?.copies.map(({ mailbox, receipts }) => [mailbox, receipts])).toEqual([
          [
            bob,
            [
              { step: 'offered', at, evidence: { way: 'hook' } },
              { step: 'shown', at, evidence: { line: 7 } },
            ],
          ],
          [carol, []],
        ]);
      });

      it('lists the receipts of all mailboxes since a time, oldest first, for the given steps only', async () => {
        const id = await accepted({}, bob, carol);
        const at = (ms: number): string => new Date(here.now() + ms).toISOString();
        const noted = { step: 'offered', evidence: { way: 'hook' } } as const;
        await journal.record(bob, id, { ...noted, at: at(-1000) });
        await journal.record(carol, id, { ...noted, at: at(0) });
        await journal.record(bob, id, { step: 'knocked', evidence: {}, at: at(0) });
        await journal.record(bob, id, { ...noted, at: at(1) });
        expect(await journal.receiptsSince(here.now(), ['offered'])).toEqual([
          { ...noted, id, mailbox: carol, at: at(0) },
          { ...noted, id, mailbox: bob, at: at(1) },
        ]);
      });
    });

    describe('when it is queried', () => {
      it('finds nothing for an unknown id, key or mailbox', async () => {
        expect(await journal.message(anId())).toBeNull();
        expect(await journal.copy(bob, anId())).toBeNull();
        expect(await journal.trace(anId())).toBeNull();
        expect(await journal.underKey(alice, aKey())).toBeNull();
        expect(await journal.idsLike('f')).toEqual([]);
        expect(await journal.history({ limit: 10 })).toEqual([]);
      });

      it('lists at most ten ids with the same beginning, newest first', async () => {
        const ids = Array.from({ length: 12 }, (_, n) => `same-${String(n).padStart(2, '0')}` as MessageId);
        for (const id of ids) await accepted({ id });
        await accepted({ id: 'other' as MessageId });
        expect(await journal.idsLike('same-')).toEqual(ids.toReversed().slice(0, 10));
        expect(await journal.idsLike('same-03')).toEqual(['same-03' as MessageId]);
        expect(await journal.idsLike('%')).toEqual([]);
      });

      it('lists the open copies of a mailbox by id', async () => {
        const [stored, held] = [await accepted(), await heldBy(ME)];
        await settled();
        await accepted({}, carol);
        expect(new Set((await journal.open(bob)).keys())).toEqual(new Set([stored, held]));
        expect((await journal.open(bob)).get(held)?.state).toBe('held');
        const entry = anEntry();
        await journal.acceptTogether([entry]);
        expect(await journal.openIds(bob)).toEqual(
          new Map([
            [stored, true],
            [held, false],
            [entry.message.id, false],
          ]),
        );
        const open = await journal.openCopies(bob, 0, 10);
        expect(open.map(({ id, waits, hasFile }) => [id, waits, hasFile])).toEqual([
          [stored, true, true],
          [held, false, false],
          [entry.message.id, true, false],
        ]);
        expect(await journal.openCopies(bob, open[0]?.seq ?? 0, 1)).toEqual(open.slice(1, 2));
      });

      it('gives the messages of one exchange, oldest first, and only the last of them', async () => {
        const root = anId();
        const lineage = { root, hop: 1, visited: [], stale: 0 };
        const ids = [await accepted({ id: root })];
        for (let n = 0; n < 3; n += 1) ids.push(await accepted({ parley: { v: 1, lineage } }));
        await accepted();
        expect((await journal.exchange(root, 10)).map(({ id }) => id)).toEqual(ids);
        expect((await journal.exchange(root, 2)).map(({ id }) => id)).toEqual(ids.slice(2));
      });

      it('pages through the history, newest first, with all recipients of each message', async () => {
        const ids = [];
        for (let n = 0; n < 5; n += 1) ids.push(await accepted({}, bob, carol));
        const first = await journal.history({ limit: 3 });
        expect(idsOf(first)).toEqual(ids.toReversed().slice(0, 3));
        expect(first[0]?.recipients).toEqual([bob, carol]);
        expect(idsOf(await journal.history({ limit: 3, before: first.at(-1)?.seq }))).toEqual(
          ids.toReversed().slice(3),
        );
      });

      it('shows an agent only what it sent or got, also within a thread', async () => {
        const root = anId();
        const inThread = { parley: { v: 1 as const, lineage: { root, hop: 1, visited: [], stale: 0 } } };
        const sent = await accepted({ from: bob, id: root }, alice);
        const got = await accepted({ from: alice, ...inThread }, bob);
        const between = await accepted({ from: alice, ...inThread }, carol);
        const elsewhere = await accepted({ from: carol }, bob);
        expect(idsOf(await journal.history({ agent: bob, limit: 10 }))).toEqual([elsewhere, got, sent]);
        expect(idsOf(await journal.history({ thread: got, limit: 10 }))).toEqual([between, got, sent]);
        expect(idsOf(await journal.history({ agent: bob, thread: got, limit: 10 }))).toEqual([got, sent]);
        const later = await accepted({ from: bob, to: '@carol' }, carol);
        expect(idsOf(await journal.history({ agent: bob, limit: 10 }))).toEqual([later, elsewhere, got, sent]);
      });
    });

    describe('a copy of a shared mailbox', () => {
      const shared = 'shared' as AgentName;

      it('belongs to the taker that its settlement names, with its receipts', async () => {
        const id = await accepted({ to: '@shared' }, shared);
        await journal.record(shared, id, {
          step: 'offered',
          at: new Date(here.now()).toISOString(),
          evidence: { way: 'x' },
        });
        await journal.claim(shared, [id], ME, until());
        expect(await journal.settle(shared, ME, [id], { ...DONE, taker: bob })).toEqual([id]);
        const trace = await journal.trace(id);
        expect(trace?.copies.map(({ mailbox, state, receipts }) => [mailbox, state, receipts.length])).toEqual([
          [bob, 'settled', 1],
          [shared, 'settled', 0],
        ]);
        expect(await journal.copy(bob, id)).toMatchObject({ disposition: 'acknowledged', settledBy: { taker: bob } });
        expect((await journal.history({ agent: bob, limit: 10 })).map(({ message }) => message.id)).toEqual([id]);
        expect((await journal.claim(shared, [id], OTHER, until())).spent).toEqual([id]);
      });

      it('ignores a taker in its evidence: only the taker of the settlement counts', async () => {
        const by = { ...DONE.by, taker: carol };
        const [given, free] = [await accepted({ to: '@shared' }, shared), await accepted({ to: '@shared' }, shared)];
        await journal.claim(shared, [given, free], ME, until());
        expect(await journal.settle(shared, ME, [given], { ...DONE, by, taker: bob })).toEqual([given]);
        expect(await journal.copy(bob, given)).toMatchObject({ state: 'settled', settledBy: { taker: bob } });
        expect(await journal.settle(shared, ME, [free], { ...DONE, by })).toEqual([free]);
        expect((await journal.copy(shared, free))?.settledBy).toEqual(DONE.by);
        await journal.assign(shared, free, bob);
        expect(await journal.copy(bob, free)).toMatchObject({ state: 'settled', settledBy: { taker: bob } });
        expect(await journal.copy(carol, given)).toBeNull();
      });

      it('that ended without a taker can be assigned to one agent, and then to no other', async () => {
        const id = await accepted({ to: '@shared' }, shared);
        await journal.assign(shared, id, bob);
        expect(await journal.copy(bob, id)).toBe(null);
        await journal.claim(shared, [id], ME, until());
        await journal.settle(shared, ME, [id], DONE);
        await journal.assign(shared, id, bob);
        await journal.assign(shared, id, carol);
        expect((await journal.trace(id))?.copies.map(({ mailbox }) => mailbox)).toEqual([bob, shared]);
      });
    });

    describe('when it looks for an unanswered message between two agents', () => {
      const HOUR = 60 * 60 * 1000;
      async function lastWord(since = 0): Promise<MessageId | undefined> {
        const said = [await journal.unanswered(alice, bob, since), await journal.unanswered(bob, alice, since)];
        const [last, ...others] = said.filter((one) => one !== null);
        expect(others).toEqual([]);
        return last?.id;
      }
      const toBob = (fields: Partial<Message> = {}) => accepted(fields, bob);
      const toAlice = (fields: Partial<Message> = {}) => accepted({ from: bob, to: '@alice', ...fields }, alice);

      it('finds the newest message to the other by name, no matter which of the two sent it', async () => {
        expect(await lastWord()).toBeUndefined();
        for (const write of [() => toBob(), () => toAlice({ to: 'alice' }), () => toAlice(), () => toBob()]) {
          const id = await write();
          expect(await lastWord()).toBe(id);
        }
      });

      it('skips messages to others, to a channel, to a role or to several, and reactions', async () => {
        const last = await toAlice();
        await toBob({ thread: last, body: 'seen', parley: { v: 1, signal: 'seen' } });
        await accepted({ to: '@carol' }, carol);
        await accepted({ from: carol }, bob);
        await accepted({ to: '#dev' }, bob);
        await accepted({ to: '@reviewers' }, bob);
        await accepted({ to: '@bob' }, bob, carol);
        await accepted({ to: '@alice' }, alice);
        expect(await lastWord()).toBe(last);
      });

      it('skips messages older than the given time', async () => {
        const at = (ms: number): { ts: string } => ({ ts: new Date(here.now() - ms).toISOString() });
        const id = await toAlice(at(HOUR));
        expect(await lastWord(here.now() - HOUR)).toBe(id);
        expect(await lastWord(here.now() - HOUR + 1)).toBeUndefined();
      });

      it('searches only the last 20 messages that each agent got, read or not', async () => {
        const last = await toAlice();
        const toAliceToo = { from: carol, to: '@alice' };
        for (let n = 0; n < 10; n += 1) await settled(toAliceToo, alice);
        for (let n = 0; n < 9; n += 1) await accepted(toAliceToo, alice);
        for (let n = 0; n < 30; n += 1) await accepted({ from: bob, to: '@carol' }, carol);
        expect(await lastWord()).toBe(last);
        await accepted(toAliceToo, alice);
        expect(await lastWord()).toBeUndefined();
      });
    });

    describe('when it is searched', () => {
      it('finds messages that contain all the words, in any order and case, newest first', async () => {
        const old = await accepted({ body: 'The migration of the database failed' });
        const fresh = await accepted({ body: 'database: migration done' });
        await accepted({ body: 'the database is fine' });
        expect(idsOf(await journal.search('migration DATABASE', { limit: 10 }))).toEqual([fresh, old]);
        expect(idsOf(await journal.search('migration nothing', { limit: 10 }))).toEqual([]);
      });

      it('matches beginnings of words only if no message contains the whole words', async () => {
        const begins = await accepted({ body: 'deployed by hand' });
        expect(idsOf(await journal.search('deploy', { limit: 10 }))).toEqual([begins]);
        const whole = await accepted({ body: 'deploy by hand' });
        expect(idsOf(await journal.search('deploy', { limit: 10 }))).toEqual([whole]);
      });

      it('finds messages that came after an earlier search, each once', async () => {
        const first = await accepted({ body: 'needle one' });
        expect(idsOf(await journal.search('needle', { limit: 10 }))).toEqual([first]);
        const second = await accepted({ body: 'needle two' });
        expect(idsOf(await journal.search('needle', { limit: 10 }))).toEqual([second, first]);
      });

      it('pages through the hits, for one agent and one thread if asked', async () => {
        const root = anId();
        const inThread = { parley: { v: 1 as const, lineage: { root, hop: 1, visited: [], stale: 0 } } };
        const ids = [];
        for (let n = 0; n < 6; n += 1) {
          const thread = n < 2 ? inThread : {};
          ids.push(await accepted({ body: `needle ${n}`, ...thread }, n % 2 === 0 ? bob : carol));
        }
        const [newest, ...older] = ids.toReversed();
        const page = await journal.search('needle', { limit: 1 });
        expect(idsOf(page)).toEqual([newest as MessageId]);
        expect(idsOf(await journal.search('needle', { limit: 9, before: page[0]?.seq }))).toEqual(older);
        expect(idsOf(await journal.search('needle', { limit: 9, agent: carol }))).toEqual([
          ids[5],
          ids[3],
          ids[1],
        ] as MessageId[]);
        expect(idsOf(await journal.search('needle', { limit: 9, thread: root }))).toEqual([
          ids[1],
          ids[0],
        ] as MessageId[]);
      });

      it.each(SIGNS)('ignores %j, and finds the words beside it', async (sign) => {
        const id = await accepted({ body: 'plain needle' });
        expect(await journal.search(sign, { limit: 10 })).toEqual([]);
        expect(idsOf(await journal.search(`needle ${sign} plain`, { limit: 10 }))).toEqual([id]);
      });

      it.each(HOSTILE)('searches for %j as a text, never runs it as a query', async (text) => {
        await accepted({ body: 'plain needle' });
        const id = await accepted({ body: `what ${text} means` });
        expect(idsOf(await journal.search(text, { limit: 10 }))).toEqual([id]);
      });

      it.each(['AND', 'OR', 'NOT', 'NEAR'])('takes the word %s as a word', async (word) => {
        await accepted({ body: 'plain needle' });
        const id = await accepted({ body: `this ${word.toLowerCase()} that needle` });
        expect(idsOf(await journal.search(`${word} needle`, { limit: 10 }))).toEqual([id]);
        expect(idsOf(await journal.search(`needle ${word} needle`, { limit: 10 }))).toEqual([id]);
      });
    });

    describe('when it prunes or forgets', () => {
      it('drops bodies that ended before a time, with their words, and keeps the facts', async () => {
        const old = await settled({ body: 'secret old' });
        here.pass(1000);
        const cut = here.now();
        const young = await settled({ body: 'secret young' });
        const open = await accepted({ body: 'secret open' });
        await journal.search('secret', { limit: 10 });
        expect(await journal.prune({ bodies: cut, facts: null })).toEqual({ bodies: 1, messages: 0 });
        expect((await journal.message(old))?.body).toBe('');
        expect((await journal.message(young))?.body).toBe('secret young');
        expect((await journal.message(open))?.body).toBe('secret open');
        expect(idsOf(await journal.search('secret', { limit: 10 }))).toEqual([open, young]);
        expect((await journal.trace(old))?.copies[0]?.state).toBe('settled');
        expect(await journal.prune({ bodies: cut, facts: null })).toEqual({ bodies: 0, messages: 0 });
      });

      it('indexes no body that was dropped before the first search', async () => {
        await settled({ body: 'secret' });
        here.pass(1000);
        await journal.prune({ bodies: here.now(), facts: null });
        expect(await journal.search('secret', { limit: 10 })).toEqual([]);
      });

      it('drops whole messages that ended before a time, with all their rows', async () => {
        const old = await settled({ body: 'secret' }, bob, carol);
        await journal.search('secret', { limit: 10 });
        here.pass(1000);
        const half = await settled({}, bob);
        expect(await journal.prune({ bodies: null, facts: here.now() })).toEqual({ bodies: 0, messages: 1 });
        expect(await journal.message(old)).toBeNull();
        expect(await journal.copy(carol, old)).toBeNull();
        expect(await journal.search('secret', { limit: 10 })).toEqual([]);
        expect(await stateOf(half)).toBe('settled');
      });

      it('drops nothing while one copy is open, however old', async () => {
        const id = await accepted({ ts: '2001-01-01T00:00:00.000Z' }, bob, carol);
        await journal.claim(bob, [id], ME, until());
        await journal.settle(bob, ME, [id], DONE);
        here.pass(1_000_000);
        expect(await journal.prune({ bodies: here.now(), facts: here.now() })).toEqual({ bodies: 0, messages: 0 });
      });

      it('counts the age of a copy that another program took from when that was recorded [BC-10]', async () => {
        const entry = anEntry({ ts: '2001-01-01T00:00:00.000Z' }, { key: aKey() });
        await journal.accept(entry);
        here.pass(1000);
        await journal.lost(bob, entry.message.id);
        expect(await journal.prune({ bodies: here.now(), facts: here.now() })).toEqual({ bodies: 0, messages: 0 });
        expect((await journal.accept(entry)).first).toBe(false);
        here.pass(1000);
        expect(await journal.prune({ bodies: null, facts: here.now() })).toEqual({ bodies: 0, messages: 1 });
      });

      it('keeps everything if no time is given', async () => {
        await settled();
        here.pass(1_000_000);
        expect(await journal.prune({ bodies: null, facts: null })).toEqual({ bodies: 0, messages: 0 });
      });

      it('removes an agent’s copies, and messages of which no other agent has a copy', async () => {
        const toSelf = await accepted({ from: bob }, bob);
        const toBob = await accepted({ from: alice }, bob);
        const fromBob = await accepted({ from: bob }, carol);
        const toBoth = await accepted({ from: alice }, bob, carol);
        expect(await journal.forget(bob)).toEqual({ copies: 3, messages: 1 });
        expect(await journal.message(toSelf)).toBeNull();
        expect(idsOf(await journal.history({ agent: alice, limit: 10 }))).toEqual([toBoth, toBob]);
        expect(idsOf(await journal.history({ agent: carol, limit: 10 }))).toEqual([toBoth, fromBob]);
        expect(await journal.copy(bob, toBoth)).toBeNull();
        expect(await journal.open(bob)).toEqual(new Map());
      });

      it('also prunes a message whose only reader was forgotten', async () => {
        const id = await accepted({ from: alice, ts: new Date(here.now()).toISOString() }, bob);
        await journal.forget(bob);
        here.pass(1000);
        expect(await journal.prune({ bodies: null, facts: here.now() })).toEqual({ bodies: 0, messages: 1 });
        expect(await journal.message(id)).toBeNull();
      });
    });

    describe('with waiting copies', () => {
      it('lists them in order of arrival, a page at a time, with the stored text', async () => {
        const ids = [await accepted(), await accepted({}, carol), await accepted(), await accepted()];
        const mine = [ids[0], ids[2], ids[3]];
        const all = await journal.waitingCopies(bob, 0, 10);
        expect(all.map(({ text }) => JSON.parse(text).id)).toEqual(mine);
        expect(all.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq).toSorted((a, b) => a - b));
        const [first] = await journal.waitingCopies(bob, 0, 1);
        expect(await journal.waitingCopies(bob, first?.seq ?? 0, 10)).toEqual(all.slice(1));
        expect(await journal.waitingCopies(bob, all.at(-1)?.seq ?? 0, 10)).toEqual([]);
      });

      it('counts and lists only copies that no reader holds and that have not ended', async () => {
        await heldBy(ME);
        await settled();
        const gone = await accepted();
        await journal.lost(bob, gone);
        const id = await accepted();
        expect(await journal.waitingCount(bob)).toBe(1);
        expect((await journal.waitingCopies(bob, 0, 10)).map(({ text }) => JSON.parse(text).id)).toEqual([id]);
        expect(await journal.waitingCount(carol)).toBe(0);
      });

      it('lists copies up to a number that came back: released, or left by a reader that died', async () => {
        const ids = [await accepted(), await accepted(), await accepted(), await accepted(), await accepted()];
        const [back, , left, held, later] = ids as [MessageId, MessageId, MessageId, MessageId, MessageId];
        await journal.claim(bob, [back, held, later], ME, until());
        await journal.claim(bob, [left], DEAD, until());
        await journal.release(bob, ME, [back, later], null, { because: 'test' });
        for (const copy of await journal.abandoned()) await journal.restore(copy, () => {});
        const seqs = new Map(
          (await journal.waitingCopies(bob, 0, 10)).map(({ seq, text }) => [JSON.parse(text).id, seq]),
        );
        const seqOf = (id: MessageId): number => seqs.get(id) ?? 0;
        const returned = async (after: number, upTo: number, limit = 10): Promise<string[]> =>
          (await journal.returned(bob, after, upTo, limit)).map(({ text }) => JSON.parse(text).id);
        expect(await returned(0, seqOf(later))).toEqual([back, left, later]);
        expect(await returned(0, seqOf(later) - 1)).toEqual([back, left]);
        expect(await returned(seqOf(back), seqOf(later), 1)).toEqual([left]);
        expect(await journal.returned(carol, 0, seqOf(later), 10)).toEqual([]);
      });

      it('tells copies that a guard keeps from other copies for a digest', async () => {
        const forDigest = async (reason: 'ambient' | 'loop'): Promise<MessageId> => {
          const digest = { mailbox: bob, attention: { ...QUIET, injection: 'digest', reason } } as const;
          return (await journal.accept(anEntry({}, { copies: [digest] }))).message.id;
        };
        const both = [await forDigest('ambient'), await forDigest('loop')];
        const idsOf = async (only: 'digest' | 'kept') =>
          (await journal.waitingCopies(bob, 0, 10, only)).map(({ id }) => id);
        expect(await idsOf('digest')).toEqual(both);
        expect(await idsOf('kept')).toEqual(both.slice(1));
      });

      it('finds receipts of a step behind thousands of others', async () => {
        const id = await accepted();
        const at = new Date(here.now()).toISOString();
        await journal.record(bob, id, { step: 'offered', at, evidence: { way: 'hook' } });
        for (let n = 0; n < 5000; n += 1) await journal.record(bob, id, { step: 'reconsidered', at, evidence: { n } });
        expect(await journal.receiptsSince(here.now(), ['offered'])).toHaveLength(1);
      });

      it('lists urgent copies without the other loud ones', async () => {
        const urgent = { mailbox: bob, attention: { ...QUIET, injection: 'immediate' } } as const;
        await accepted();
        const { message } = await journal.accept(anEntry({}, { copies: [urgent] }));
        expect((await journal.waitingCopies(bob, 0, 10, 'immediate')).map(({ id }) => id)).toEqual([message.id]);
      });

      it('tells for each whether it is quiet', async () => {
        const entry = anEntry({}, { copies: [{ mailbox: bob, attention: QUIET }] });
        await journal.accept(entry);
        const loud = await accepted();
        const copies = await journal.waitingCopies(bob, 0, 10);
        expect(copies.map(({ id, quiet }) => [id, quiet])).toEqual([
          [entry.message.id, true],
          [loud, false],
        ]);
        expect(await journal.waitingCopies(bob, 0, 10, 'loud')).toEqual(copies.slice(1));
        expect(await journal.waitingCopies(bob, 0, 10, 'digest')).toEqual([]);
        expect(await journal.mailboxesWithMail('bo')).toEqual([bob]);
        expect(await journal.mailboxesWithMail('nobody.')).toEqual([]);
        expect(await journal.waitingCopy(bob, loud)).toEqual(copies[1] ?? null);
        expect(await journal.waitingCopy(carol, loud)).toBeNull();
        expect(await journal.newest()).toBe(copies[1]?.seq ?? 0);
      });
    });

    describe('with copies that are accepted before they have a file', () => {
      async function late(...entries: Entry[]): Promise<MessageId[]> {
        await journal.acceptTogether(entries);
        return entries.map(({ message }) => message.id);
      }
      async function unfiled(drafted = false): Promise<MessageId[]> {
        return (await journal.unexported(FIRST, 10, drafted)).map(({ id }) => id);
      }

      it('accepts many in one transaction, each with its own outcome', async () => {
        const key = aKey();
        await journal.accept(anEntry({ body: 'first' }, { key }));
        const [one, conflict, other, again] = await journal.acceptTogether([
          anEntry(),
          anEntry({ body: 'another' }, { key }),
          anEntry(),
          anEntry({ body: 'first' }, { key }),
        ]);
        expect([one, other]).toMatchObject([{ first: true }, { first: true }]);
        expect(conflict).toMatchObject({ code: 'key_conflict' });
        expect(again).toMatchObject({ first: false, message: { body: 'first' } });
        expect(await journal.waitingCount(bob)).toBe(3);
      });

      it('stores one message for one key within one transaction, and returns its number', async () => {
        const key = aKey();
        const [first, second] = await journal.acceptTogether([anEntry({}, { key }), anEntry({}, { key })]);
        expect([first, second]).toMatchObject([{ first: true }, { first: false }]);
        expect((second as Acceptance).message.id).toBe((first as Acceptance).message.id);
        expect((second as Acceptance).copies).toMatchObject(copiesFor(bob));
        expect((first as Acceptance).seq).toBe((await journal.waitingCopies(bob, 0, 1))[0]?.seq as number);
      });

      it('answers an id that comes twice within one transaction with the entry that it just accepted', async () => {
        const entry = anEntry();
        const [first, second] = await journal.acceptTogether([entry, { ...entry }]);
        expect([first, second]).toMatchObject([{ first: true }, { first: false, copies: copiesFor(bob) }]);
        expect(await journal.waitingCount(bob)).toBe(1);
      });

      it('lists them with their text until they are exported', async () => {
        const entry = anEntry({}, { copies: [...copiesFor(bob), { mailbox: carol, attention: QUIET }] });
        const [id] = await late(entry);
        const list = await journal.unexported(FIRST, 10);
        expect(list.map(({ mailbox, quiet, id: one }) => [mailbox, quiet, one])).toEqual([
          [bob, false, id as MessageId],
          [carol, true, id as MessageId],
        ]);
        expect(JSON.parse(list[0]?.text ?? '')).toEqual(entry.message);
        expect(await journal.unexported(list[0] as CopyNumber, 10)).toEqual(list.slice(1));
        expect(await journal.drafted(list)).toEqual([true, true]);
        expect([await unfiled(), await unfiled(true)]).toEqual([[], [id as MessageId, id as MessageId]]);
        expect(await journal.unexportedCount(10)).toBe(2);
        await journal.exported(list);
        expect(await journal.unexportedCount(10)).toBe(0);
      });

      it('no longer lists a copy that was placed, and reports as placed only those that no reader had claimed', async () => {
        const entry = anEntry({}, { copies: copiesFor(bob, carol) });
        const [id] = (await late(entry)) as [MessageId];
        const list = await journal.unexported(FIRST, 10);
        await journal.claim(carol, [id], ME, until());
        expect(await journal.placed(list)).toEqual([true, false]);
        expect(await journal.unexportedCount(10)).toBe(0);
        const { won } = await journal.claim(bob, [id], ME, until());
        expect([won.length, won[0]?.text]).toEqual([1, undefined]);
        expect(await journal.placed(list)).toEqual([false, false]);
      });

      it('returns the message with the claim, and from then on lists the copy no more', async () => {
        const entry = anEntry();
        const [id] = (await late(entry)) as [MessageId];
        const list = await journal.unexported(FIRST, 10);
        expect((await journal.copy(bob, id))?.fileless).toBe(true);
        const { won } = await journal.claim(bob, [id], ME, until());
        expect(JSON.parse(won[0]?.text ?? 'null')).toEqual(entry.message);
        expect(await journal.drafted(list)).toEqual([false]);
        expect(await journal.unexportedCount(10)).toBe(0);
        await journal.settle(bob, ME, [id], DONE);
        expect(await journal.copy(bob, id)).toMatchObject({ state: 'settled', fileless: true });
      });

      it('returns no message with the claim once a draft may be published: the file decides', async () => {
        const [id] = (await late(anEntry())) as [MessageId];
        await journal.drafted(await journal.unexported(FIRST, 10));
        const { won } = await journal.claim(bob, [id], ME, until());
        expect([won.length, won[0]?.text]).toEqual([1, undefined]);
        expect((await journal.copy(bob, id))?.fileless).toBeUndefined();
      });

      it('lists one again after a release or the death of its reader, and moves no file for it', async () => {
        const ids = await late(anEntry(), anEntry());
        const [released, abandoned] = ids as [MessageId, MessageId];
        await journal.claim(bob, [released], ME, until());
        await journal.claim(bob, [abandoned], DEAD, until());
        expect(await unfiled()).toEqual([]);
        let moved = 0;
        await journal.release(bob, ME, [released], null, { because: 'test' }, () => (moved += 1));
        for (const copy of await journal.abandoned()) await journal.restore(copy, () => (moved += 1));
        expect((await unfiled()).toSorted()).toEqual(ids.toSorted());
        expect(moved).toBe(0);
        expect((await journal.claim(bob, ids, ME, until())).won.map(({ text }) => typeof text)).toEqual([
          'string',
          'string',
        ]);
      });

      it('gives one with an expired lease to the next reader, with the message', async () => {
        const [id] = (await late(anEntry())) as [MessageId];
        await journal.claim(bob, [id], ME, until());
        here.pass(LEASE + 1);
        const { won } = await journal.claim(bob, [id], OTHER, until());
        expect(won[0]).toMatchObject({ attempt: 1, text: expect.any(String) });
        expect(await unfiled()).toEqual([]);
      });

      it('lists none that was withdrawn, lost or forgotten', async () => {
        const [withdrawn, lost] = (await late(anEntry(), anEntry(), anEntry({}, { copies: copiesFor(carol) }))) as [
          MessageId,
          MessageId,
        ];
        await journal.withdraw(withdrawn, { test: true });
        await journal.lost(bob, lost);
        await journal.forget(carol);
        expect(await unfiled()).toEqual([]);
      });

      it('is on disk when `flush` returns', async () => {
        await late(anEntry());
        await journal.flush();
        await journal.flush(true);
      });

      it('never gives a number twice, also when the newest messages were forgotten', async () => {
        await late(anEntry(), anEntry({}, { copies: copiesFor(carol) }));
        const newest = await journal.newest();
        await journal.forget(carol);
        await journal.forget(alice);
        await journal.forget(bob);
        expect(await journal.newest()).toBeLessThan(newest);
        await late(anEntry());
        expect(await journal.newest()).toBeGreaterThan(newest);
      });
    });

    it('returns values whose change does not change the journal', async () => {
      const message = aMessage();
      await journal.accept({ message, copies: copiesFor(bob) });
      Object.assign((await journal.message(message.id)) ?? {}, { body: 'changed' });
      expect((await journal.message(message.id))?.body).toBe(message.body);
    });

    it('can be closed twice', async () => {
      await journal.close();
      await journal.close();
    });
  });
}

function idsOf(rows: HistoryRow[]): MessageId[] {
  return rows.map(({ message }) => message.id);
}
