import { anObligation, enterAll } from '../../test/support/obligation-row.ts';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { alice, anEntry, anId, bob, carol, copiesFor, LOUD, QUIET } from '../../test/support/mail.ts';
import type { Obligation } from '../core/obligations/rules.ts';
import type { Message } from '../core/message.ts';
import { AgentName } from '../core/names.ts';
import type { MessageId } from '../core/names.ts';
import type { Disposition } from '../core/receipt.ts';
import type { ObligationPage, EventClaim, SessionRecord } from '../core/ports/obligations.ts';
import type { OpenLedger } from './journal.contract.ts';
import type { MailboxJournal } from '../core/ports/journal.ts';

const ME = 'bearer.me';
const ALL = { limit: 1000 };
const END: NonNullable<Obligation['ended']> = { as: 'responded', at: 5, by: { reply: 'x' } };
const MUST = { ...LOUD, reason: 'direct_mention' } as const;

/** The promises of every journal about obligations, claims and sessions. Each sentence of core/ports/obligations.ts is a test here. */
export function obligationsContract(name: string, open: () => Promise<OpenLedger>): void {
  describe(`the obligations of the ${name} journal`, () => {
    let here: OpenLedger;
    let journal: MailboxJournal;
    beforeEach(async () => {
      here = await open();
      ({ journal } = here);
    });
    afterEach(() => here.close());

    async function accepted(fields: Partial<Message> = {}, ...to: AgentName[]): Promise<MessageId> {
      const copies = copiesFor(...(to.length > 0 ? to : [bob]));
      return (await journal.accept(anEntry(fields, { copies }))).message.id;
    }
    /** A copy of a message that another program left, found in this mailbox. */
    async function found(message: Message, mailbox: AgentName): Promise<void> {
      await journal.adopt([{ message, copies: [{ mailbox, attention: MUST }] }], 'stored');
    }
    async function settle(id: MessageId, mailbox = bob): Promise<void> {
      await journal.claim(mailbox, [id], ME, here.now() + 1000);
      await journal.settle(mailbox, ME, [id], { disposition: 'acknowledged', by: { test: true } });
    }
    async function unentered(limit = 100): Promise<string[]> {
      return (await journal.unentered(limit)).copies.map(({ copy }) => `${copy.mailbox} ${copy.id}`);
    }
    async function owed(mailbox = bob): Promise<MessageId[]> {
      return (await journal.owed(mailbox, ALL)).map(({ id }) => id);
    }
    async function end(id: MessageId, mailbox = bob, at = here.now()): Promise<void> {
      await journal.changeObligation(mailbox, id, (obligation) => ({ ...obligation, ended: { ...END, at } }));
    }

    describe('when they are entered', () => {
      it('come from the copies that must be answered, oldest first, with their messages', async () => {
        const first = anEntry({}, { copies: [...copiesFor(carol, bob), { mailbox: alice, attention: QUIET }] });
        await journal.accept(first);
        await journal.accept(anEntry({}, { copies: [{ mailbox: bob, attention: QUIET }] }));
        const last = await accepted();
        const { copies } = await journal.unentered(100);
        expect(copies.map(({ copy }) => [copy.mailbox, copy.id])).toEqual([
          [bob, first.message.id],
          [carol, first.message.id],
          [bob, last],
        ]);
        expect(copies[0]).toEqual({
          message: first.message,
          copy: (await journal.copy(bob, first.message.id)) ?? expect.unreachable(),
          alone: true,
        });
      });

      it('tell whether their exchange has other messages', async () => {
        const id = await accepted();
        const lineage = { root: id, hop: 1, visited: [], stale: 0 };
        const answer = anEntry({ from: bob, thread: id, parley: { v: 1, lineage } });
        await journal.accept(answer);
        await accepted();
        const { copies } = await journal.unentered(100);
        expect(copies.map(({ alone }) => alone)).toEqual([false, false, true]);
      });

      it('are offered until a process has entered them, and then never again', async () => {
        const id = await accepted();
        expect(await unentered()).toEqual([`bob ${id}`]);
        const [obligation = expect.unreachable()] = (await enterAll(journal)) ?? [];
        expect(await unentered()).toEqual([]);
        expect(await journal.obligation(bob, id)).toEqual(obligation);
        const { from, upTo } = await journal.unentered(100);
        expect(upTo).toBe(from);
      });

      it('come a page at a time, with the copies of one message on the same page', async () => {
        const [a, b] = [await accepted(), await accepted({}, bob, carol)];
        const [c, d] = [await accepted({}, alice, bob, carol), await accepted()];
        const bites: number[] = [];
        for (let bite = await enterAll(journal, 2); bite?.length; bite = await enterAll(journal, 2)) {
          bites.push(bite.length);
        }
        expect(bites).toEqual([1, 2, 3, 1]);
        expect((await owed()).toSorted()).toEqual([a, b, c, d].toSorted());
      });

      it('are entered by one of two processes that scanned at the same time: the other enters nothing', async () => {
        const id = await accepted();
        const [one, other] = [await journal.unentered(100), await journal.unentered(100)];
        expect(await journal.enter(one.from, one.upTo, [anObligation({ id, note: 'one' })])).toBe(true);
        expect(await journal.enter(other.from, other.upTo, [anObligation({ id, note: 'other' }), anObligation()])).toBe(
          false,
        );
        expect((await journal.owed(bob, ALL)).map(({ note }) => note)).toEqual(['one']);
      });

      it('are found behind messages that make none', async () => {
        await journal.accept(anEntry({}, { copies: [{ mailbox: bob, attention: QUIET }] }));
        const { from, upTo } = await journal.unentered(100);
        expect(upTo).toBeGreaterThan(from);
        expect(await journal.enter(from, upTo, [])).toBe(true);
        expect(await journal.unentered(100)).toEqual({ from: upTo, upTo, copies: [] });
        expect(await journal.enter(upTo, upTo, [])).toBe(true);
        expect(await journal.enter(from, from, [])).toBe(false);
      });

      it('are offered also for a copy that ended meanwhile: the process that enters them decides', async () => {
        const id = await accepted();
        await settle(id);
        const { copies } = await journal.unentered(100);
        expect(copies.map(({ copy }) => copy.disposition)).toEqual(['acknowledged']);
      });

      it('are not offered for a copy that has one, which stays unchanged', async () => {
        const [id, other] = [await accepted(), await accepted()];
        expect(await journal.addObligation(anObligation({ id, note: 'first' }))).toBe(true);
        expect(await journal.addObligation(anObligation({ id, note: 'second' }))).toBe(false);
        expect(await unentered()).toEqual([`bob ${other}`]);
        const { from, upTo } = await journal.unentered(100);
        await journal.enter(from, upTo, [anObligation({ id, note: 'third' })]);
        expect((await journal.obligation(bob, id))?.note).toBe('first');
      });

      it('come also from a copy found long after its message was entered', async () => {
        const { message } = anEntry();
        await found(message, bob);
        const later = await accepted();
        await enterAll(journal);
        await found(message, carol);
        expect(await unentered()).toEqual([`carol ${message.id}`]);
        expect(await enterAll(journal)).toHaveLength(1);
        expect(await unentered()).toEqual([]);
        expect((await owed()).toSorted()).toEqual([message.id, later].toSorted());
        expect(await owed(carol)).toEqual([message.id]);
      });

      it('come also from a copy found between a scan and its enter', async () => {
        const { message } = anEntry();
        await found(message, bob);
        const { from, upTo, copies } = await journal.unentered(100);
        await found(message, carol);
        expect(await journal.enter(from, upTo, [anObligation({ id: message.id })])).toBe(false);
        expect(copies).toHaveLength(1);
        expect(await unentered()).toEqual([`bob ${message.id}`, `carol ${message.id}`]);
      });

      it('are kept also for a message with an unreadable time', async () => {
        const unreadable = { at: NaN, due: NaN, every: NaN };
        const { from, upTo } = await journal.unentered(100);
        const [open, ended] = [anObligation(unreadable), anObligation({ ...unreadable, ended: { ...END, at: NaN } })];
        expect(await journal.enter(from, upTo, [open, ended])).toBe(true);
        expect(await journal.obligation(bob, open.id)).toMatchObject({ at: 0, due: 0, ended: null });
        expect(await journal.obligation(bob, ended.id)).toMatchObject({ ended: { ...END, at: 0 } });
      });

      it('are complete and never doubled, in whatever order copies arrive and are entered', async () => {
        const To = fc.subarray([alice, bob, carol], { minLength: 1 });
        const Act = fc.oneof(
          fc.record({ do: fc.constant('accept' as const), n: fc.nat(5), to: To }),
          fc.record({ do: fc.constant('find' as const), n: fc.nat(5), to: To }),
          fc.record({ do: fc.constant('look' as const), limit: fc.integer({ min: 1, max: 4 }) }),
          fc.record({ do: fc.constant('enter' as const), n: fc.nat(3) }),
        );
        await fc.assert(
          fc.asyncProperty(fc.array(Act, { maxLength: 25 }), async (acts) => {
            const home = await open();
            const ids = Array.from({ length: 6 }, anId);
            const looks: Awaited<ReturnType<MailboxJournal['unentered']>>[] = [];
            for (const act of acts) {
              const message = anEntry({ id: ids['n' in act ? act.n : 0] ?? anId() }).message;
              if (act.do === 'accept') await home.journal.accept({ message, copies: copiesFor(...act.to) });
              else if (act.do === 'find')
                await home.journal.adopt([{ message, copies: copiesFor(...act.to) }], 'stored');
              else if (act.do === 'look') looks.push(await home.journal.unentered(act.limit));
              else if (looks[act.n]) await enterLook(home.journal, looks[act.n]);
            }
            while ((await enterAll(home.journal, 2))?.length);
            for (const id of ids) {
              for (const { mailbox } of (await home.journal.trace(id))?.copies ?? []) {
                expect(await home.journal.obligation(mailbox, id)).not.toBeNull();
              }
            }
            await home.close();
          }),
          { numRuns: 60 },
        );
      });
    });

    describe('when they are queried', () => {
      it('are listed by the agent that owes them, the oldest first, without ended ones', async () => {
        const [old, young, ended] = [
          anObligation({ at: 1 }),
          anObligation({ at: 2 }),
          anObligation({ at: 1, ended: END }),
        ];
        for (const obligation of [young, ended, old, anObligation({ mailbox: carol })])
          await journal.addObligation(obligation);
        expect(await journal.owed(bob, ALL)).toEqual([old, young]);
        expect(await journal.owed(alice, ALL)).toEqual([]);
        expect(await journal.obligation(bob, ended.id)).toEqual(ended);
        expect(await journal.obligation(alice, old.id)).toBeNull();
      });

      it('are listed by the agent that waits for them, the oldest first', async () => {
        const [old, young] = [anObligation({ at: 1, mailbox: carol }), anObligation({ at: 2 })];
        for (const obligation of [young, anObligation({ from: carol }), anObligation({ ended: END }), old])
          await journal.addObligation(obligation);
        expect(await journal.blocking(alice, ALL)).toEqual([old, young]);
      });

      it('are listed by their delegate, the oldest first', async () => {
        const asked = (delegate: AgentName) =>
          accepted({ parley: { v: 1, obligation: { blocks: 'halted', delegate } } });
        const kind = 'obligation' as const;
        const young = anObligation({ id: await asked(carol), kind, at: 2 });
        const old = anObligation({ id: await asked(carol), kind, at: 1 });
        const ended = anObligation({ id: await asked(carol), kind, ended: END });
        const other = anObligation({ id: await asked(alice), kind });
        for (const obligation of [young, old, ended, other]) await journal.addObligation(obligation);
        expect(await journal.delegated(carol, 9)).toEqual([old, young]);
        expect(await journal.delegated(carol, 1)).toEqual([old]);
      });

      it('keep all their fields', async () => {
        const obligation = anObligation({
          kind: 'obligation',
          state: 'deferred',
          due: null,
          every: 7,
          returns: 3,
          tier: 2,
          extended: true,
          note: 'later, "soon"\n',
        });
        await journal.addObligation(obligation);
        expect(await journal.obligation(bob, obligation.id)).toEqual(obligation);
        expect(await journal.owed(bob, ALL)).toEqual([obligation]);
      });

      it('come a page at a time, also if several are of the same moment', async () => {
        const obligations = Array.from({ length: 7 }, (_, n) => anObligation({ at: Math.floor(n / 4) }));
        for (const obligation of obligations) await journal.addObligation(obligation);
        const pages = await paged((page) => journal.owed(bob, page), 3);
        expect(pages.map(({ length }) => length)).toEqual([3, 3, 1]);
        expect(pages.flat()).toEqual(await journal.owed(bob, ALL));
      });

      it('come a page at a time also if several agents owe an answer to one message', async () => {
        const [id, next] = [anId(), anId()];
        const owing = ['a', 'b', 'c', 'd'].map((one) => AgentName.parse(one));
        for (const mailbox of owing) await journal.addObligation(anObligation({ id, mailbox, at: 1 }));
        await journal.addObligation(anObligation({ id: next, at: 2 }));
        const pages = await paged((page) => journal.blocking(alice, page), 2);
        expect(pages.flat().map(({ mailbox }) => mailbox)).toEqual([...owing, bob]);
        expect(
          (await journal.blocking(alice, { after: { at: 1, id }, limit: 9 })).map((obligation) => obligation.id),
        ).toEqual([next]);
      });

      it('keep their place while others are added and ended between two pages', async () => {
        const obligations = Array.from({ length: 6 }, (_, n) => anObligation({ at: 10 + n }));
        for (const obligation of obligations) await journal.addObligation(obligation);
        const [first, second, third, fourth, fifth, sixth] = obligations.map(({ id }) => id);
        const page = await journal.owed(bob, { limit: 2 });
        expect(page.map(({ id }) => id)).toEqual([first, second] as MessageId[]);
        await end(first as MessageId);
        await end(fourth as MessageId);
        await journal.addObligation(anObligation({ at: 1 }));
        const rest = await journal.owed(bob, { after: page[1], limit: 9 });
        expect(rest.map(({ id }) => id)).toEqual([third, fifth, sixth] as MessageId[]);
      });

      it('are counted up to a limit', async () => {
        for (let n = 0; n < 4; n += 1) await journal.addObligation(anObligation());
        await journal.addObligation(anObligation({ ended: END }));
        expect(await journal.owedCount(bob, 100)).toBe(4);
        expect(await journal.owedCount(bob, 3)).toBe(3);
        expect(await journal.owedCount(bob, 0)).toBe(0);
        expect(await journal.owedCount(carol, 100)).toBe(0);
      });

      it('are due when their time has come, the earliest first, and not without a time', async () => {
        const [late, early, never] = [
          anObligation({ due: 30 }),
          anObligation({ due: 10 }),
          anObligation({ due: null }),
        ];
        for (const obligation of [late, early, never, anObligation({ due: 5, ended: END })])
          await journal.addObligation(obligation);
        expect(await journal.nextDue()).toBe(10);
        expect(await journal.dueObligations(9, 10)).toEqual([]);
        expect(await journal.dueObligations(10, 10)).toEqual([early]);
        expect(await journal.dueObligations(30, 10)).toEqual([early, late]);
        expect(await journal.dueObligations(30, 1)).toEqual([early]);
        for (const { id } of [early, late]) await end(id);
        expect(await journal.nextDue()).toBeNull();
      });
    });

    describe('when one changes', () => {
      it('is passed to the change as it is, and is stored as the change returns it', async () => {
        const obligation = anObligation();
        await journal.addObligation(obligation);
        const next: Obligation = {
          ...obligation,
          state: 'deferred',
          due: 9,
          returns: 1,
          tier: 1,
          extended: true,
          note: 'later',
        };
        const seen: Obligation[] = [];
        const changed = await journal.changeObligation(bob, obligation.id, (one) => {
          seen.push(one);
          return next;
        });
        expect(seen).toEqual([obligation]);
        expect(changed).toEqual(next);
        expect(await journal.obligation(bob, obligation.id)).toEqual(next);
      });

      it('stays unchanged if the change returns null, and is not made if there is none', async () => {
        const obligation = anObligation();
        await journal.addObligation(obligation);
        expect(await journal.changeObligation(bob, obligation.id, () => null)).toEqual(obligation);
        expect(await journal.changeObligation(carol, obligation.id, () => obligation)).toBeNull();
        expect(await journal.obligation(carol, obligation.id)).toBeNull();
      });

      it('stays unchanged if the change throws', async () => {
        const obligation = anObligation();
        await journal.addObligation(obligation);
        const failing = journal.changeObligation(bob, obligation.id, (one) => {
          one.note = 'half';
          throw new Error('no');
        });
        await expect(failing).rejects.toThrow('no');
        expect(await journal.obligation(bob, obligation.id)).toEqual(obligation);
        expect((await journal.changeObligation(bob, obligation.id, (one) => ({ ...one, note: 'whole' })))?.note).toBe(
          'whole',
        );
      });

      it('keeps its mailbox, its kind, its author and its age', async () => {
        const obligation = anObligation();
        await journal.addObligation(obligation);
        const other = anObligation({ mailbox: carol, from: carol, kind: 'obligation', at: 1, every: 1, note: 'other' });
        expect(await journal.changeObligation(bob, obligation.id, () => other)).toEqual({
          ...obligation,
          note: 'other',
        });
        expect(await journal.blocking(alice, ALL)).toEqual([{ ...obligation, note: 'other' }]);
      });

      it('ends once, and no later change affects it', async () => {
        const obligation = anObligation();
        await journal.addObligation(obligation);
        await journal.changeObligation(bob, obligation.id, (one) => ({ ...one, ended: END }));
        const late = await journal.changeObligation(bob, obligation.id, () => expect.unreachable('it has ended'));
        expect(late).toEqual({ ...obligation, ended: END });
      });

      it('loses no change of many at once', async () => {
        const obligation = anObligation();
        await journal.addObligation(obligation);
        const more = (one: Obligation): Obligation => ({ ...one, returns: one.returns + 1 });
        await Promise.all(Array.from({ length: 50 }, () => journal.changeObligation(bob, obligation.id, more)));
        expect((await journal.obligation(bob, obligation.id))?.returns).toBe(50);
      });

      it('has exactly one end, the first, whatever is done to it in whatever order [C2A-104]', async () => {
        const As = fc.constantFrom<Disposition>('responded', 'acknowledged', 'superseded', 'failed', 'ignored');
        const Act = fc.oneof(
          fc.record({ do: fc.constant('end' as const), as: As, at: fc.nat(1000) }),
          fc.record({ do: fc.constant('reopen' as const) }),
          fc.record({ do: fc.constant('defer' as const), due: fc.option(fc.nat(1000)) }),
          fc.record({ do: fc.constant('add' as const) }),
          fc.record({ do: fc.constant('leave' as const) }),
        );
        await fc.assert(
          fc.asyncProperty(fc.array(Act, { maxLength: 20 }), async (acts) => {
            const obligation = anObligation();
            await journal.addObligation(obligation);
            let first: Obligation['ended'] = null;
            for (const act of acts) {
              if (act.do === 'add') expect(await journal.addObligation(obligation)).toBe(false);
              else await journal.changeObligation(bob, obligation.id, (one) => changedBy(act, one));
              if (act.do === 'end') first ??= { as: act.as, at: act.at, by: { test: true } };
              expect((await journal.obligation(bob, obligation.id))?.ended).toEqual(first);
              expect((await owed()).includes(obligation.id)).toBe(first === null);
            }
          }),
          { numRuns: 60 },
        );
      });
    });

    describe('with claims', () => {
      const asked = (fields: Partial<EventClaim> = {}): EventClaim => ({
        key: 'event' as MessageId,
        holder: bob,
        until: 100,
        reserved: false,
        ...fields,
      });

      it('let one of 50 racing claimers win, and tell the others who has the claim', async () => {
        const names = Array.from({ length: 50 }, (_, n) => AgentName.parse(`agent-${n}`));
        const stand = await Promise.all(names.map((holder) => journal.claimEvent(asked({ holder }), 0)));
        expect(new Set(stand.map(({ holder }) => holder)).size).toBe(1);
        expect(await journal.eventClaim(asked().key, 0)).toEqual(stand[0] ?? null);
      });

      it('end at their time, and can be renewed before it [C2A-133]', async () => {
        expect(await journal.claimEvent(asked(), 0)).toEqual(asked());
        expect(await journal.claimEvent(asked({ holder: carol, until: 300 }), 99)).toEqual(asked());
        expect(await journal.claimEvent(asked({ until: 200 }), 99)).toEqual(asked({ until: 200 }));
        expect(await journal.eventClaim(asked().key, 199)).toEqual(asked({ until: 200 }));
        expect(await journal.eventClaim(asked().key, 200)).toBeNull();
        expect(await journal.claimEvent(asked({ holder: carol, until: 300 }), 200)).toMatchObject({ holder: carol });
      });

      it('are never shortened, and no longer reserved once their holder has claimed', async () => {
        await journal.claimEvent(asked({ reserved: true }), 0);
        expect(await journal.claimEvent(asked({ until: 50 }), 0)).toEqual(asked());
        expect(await journal.claimEvent(asked({ reserved: true }), 0)).toEqual(asked());
      });

      it('can be freed by their holder alone', async () => {
        await journal.claimEvent(asked(), 0);
        expect(await journal.freeClaim(asked().key, carol)).toBe(false);
        expect(await journal.eventClaim(asked().key, 0)).toEqual(asked());
        expect(await journal.freeClaim(asked().key, bob)).toBe(true);
        expect(await journal.eventClaim(asked().key, 0)).toBeNull();
        expect(await journal.freeClaim(asked().key, bob)).toBe(false);
      });

      it('are listed by holder while they last, in the order in which they run out', async () => {
        const key = (name: string): MessageId => name as MessageId;
        const claims = [asked({ key: key('b'), until: 30 }), asked({ key: key('a'), until: 20 }), asked({ until: 10 })];
        for (const claim of [...claims, asked({ key: key('c'), holder: carol })]) await journal.claimEvent(claim, 0);
        expect((await journal.claimsOf(bob, 10)).map((claim) => claim.key)).toEqual([key('a'), key('b')]);
        expect(await journal.claimsOf(alice, 0)).toEqual([]);
      });
    });

    describe('with sessions', () => {
      it('keep each under its id, until it is replaced or dropped', async () => {
        const [one, other] = [aSession('one'), aSession('other')];
        for (const session of [other, one]) await journal.saveSession(session);
        expect(await journal.session('one')).toEqual(one);
        expect(await journal.sessions()).toEqual([one, other]);
        await journal.saveSession({ ...one, identities: [carol], seen: 9 });
        expect(await journal.session('one')).toEqual({ ...one, identities: [carol], seen: 9 });
        await journal.dropSession('one');
        await journal.dropSession('one');
        expect(await journal.session('one')).toBeNull();
        expect(await journal.sessions()).toEqual([other]);
      });
    });

    describe('when messages are pruned or an agent is forgotten', () => {
      /** A message of alice whose copy has ended, and for which bob has this obligation. */
      async function owedFor(fields: Partial<Obligation> = {}): Promise<MessageId> {
        const id = await accepted({ body: 'secret' });
        await enterAll(journal, 100, { at: here.now(), ...fields });
        await settle(id);
        return id;
      }

      it('keep their message with its body while they are open, and after their end as long as any other message', async () => {
        const id = await owedFor({ kind: 'obligation' });
        here.pass(1000);
        expect(await journal.prune({ bodies: here.now(), facts: here.now() })).toEqual({ bodies: 0, messages: 0 });
        expect((await journal.message(id))?.body).toBe('secret');
        await end(id);
        expect(await journal.prune({ bodies: here.now(), facts: here.now() })).toEqual({ bodies: 0, messages: 0 });
        here.pass(1000);
        expect(await journal.prune({ bodies: here.now(), facts: here.now() })).toEqual({ bodies: 1, messages: 1 });
        expect(await journal.obligation(bob, id)).toBeNull();
      });

      it('are pruned with their message if only a reply is owed, entered or not', async () => {
        const [entered, unentered] = [await owedFor(), await accepted()];
        await settle(unentered);
        here.pass(1000);
        expect(await journal.prune({ bodies: null, facts: here.now() })).toEqual({ bodies: 0, messages: 2 });
        expect(await journal.obligation(bob, entered)).toBeNull();
      });

      it('keep their message also if they are not entered yet', async () => {
        const obligation = { v: 1, obligation: { blocks: 'halted' } } as const;
        const [kept, dropped] = [await accepted({ parley: obligation }), await accepted()];
        for (const id of [kept, dropped]) await settle(id);
        here.pass(1000);
        expect(await journal.prune({ bodies: here.now(), facts: here.now() })).toEqual({ bodies: 1, messages: 1 });
        expect(await unentered()).toEqual([`bob ${kept}`]);
        await enterAll(journal, 100, { ended: { ...END, at: 0 } });
        expect(await journal.prune({ bodies: null, facts: here.now() })).toEqual({ bodies: 0, messages: 1 });
        expect(await journal.message(kept)).toBeNull();
      });

      it('are pruned together with expired claims and inactive sessions', async () => {
        const lives = { key: anId(), holder: bob, until: here.now() + 5000, reserved: false };
        for (const claim of [lives, { ...lives, key: anId(), until: here.now() + 10 }]) {
          await journal.claimEvent(claim, here.now());
        }
        await journal.saveSession({ ...aSession('old'), seen: here.now() });
        await journal.addObligation(anObligation({ ended: { ...END, at: here.now() } }));
        here.pass(1000);
        const young = { ...aSession('young'), seen: here.now() };
        await journal.saveSession(young);
        await journal.prune({ bodies: here.now(), facts: null });
        expect(await journal.sessions()).toHaveLength(2);
        await journal.prune({ bodies: null, facts: here.now() });
        expect(await journal.claimsOf(bob, 0)).toEqual([lives]);
        expect(await journal.sessions()).toEqual([young]);
      });

      it('are removed with their agent, and so are its claims and its name in sessions', async () => {
        const [id, ended] = [await owedFor(), await owedFor()];
        await end(ended);
        await journal.claimEvent({ key: id, holder: bob, until: here.now() + 1000, reserved: false }, here.now());
        await journal.saveSession({ ...aSession('his'), identities: [bob] });
        await journal.saveSession({ ...aSession('both'), identities: [bob, carol] });
        await journal.saveSession({ ...aSession('nobody'), identities: [] });
        await journal.forget(bob);
        expect(await journal.obligation(bob, id)).toBeNull();
        expect(await journal.obligation(bob, ended)).toBeNull();
        expect(await journal.claimsOf(bob, 0)).toEqual([]);
        const left = await journal.sessions();
        expect(left.map((session) => [session.id, session.identities])).toEqual([
          ['both', [carol]],
          ['nobody', []],
        ]);
        expect(await unentered()).toEqual([]);
      });

      it('stay if another agent waits for them: without the note of the forgotten agent, and due at once', async () => {
        const far = here.now() + 1_000_000;
        const id = await owedFor({ kind: 'obligation', state: 'deferred', note: 'my own words', due: far });
        const done = await owedFor({ kind: 'obligation' });
        await end(done);
        const own = await accepted({ from: bob }, bob);
        await enterAll(journal, 100, { kind: 'obligation' });
        const before = (await journal.obligation(bob, id)) ?? expect.unreachable();
        await journal.forget(bob);
        const after = { ...before, state: 'open', note: null, due: here.now() } as const;
        expect(await journal.blocking(alice, ALL)).toEqual([after]);
        expect(await journal.dueObligations(here.now(), 9)).toEqual([after]);
        for (const gone of [done, own]) expect(await journal.obligation(bob, gone)).toBeNull();
        here.pass(1000);
        await journal.prune({ bodies: here.now(), facts: here.now() });
        expect((await journal.message(id))?.body).toBe('secret');
      });

      it('end when the agent that waits for them is forgotten, and are not offered again', async () => {
        const [id, done] = [await owedFor({ kind: 'obligation' }), await owedFor()];
        await end(done);
        const before = await journal.obligation(bob, done);
        await journal.forget(alice);
        expect(await journal.owed(bob, ALL)).toEqual([]);
        expect((await journal.obligation(bob, id))?.ended).toMatchObject({ as: 'superseded', at: here.now() });
        expect(await journal.obligation(bob, done)).toEqual(before);
        await found(anEntry({ id }).message, carol);
        expect(await unentered()).toEqual([`carol ${id}`]);
      });
    });

    it('are returned as values whose change does not change the journal', async () => {
      const [obligation, session] = [anObligation({ ended: { ...END, by: { said: 'so' } } }), aSession('one')];
      await journal.addObligation(obligation);
      await journal.saveSession(session);
      const [given, known] = [await journal.obligation(bob, obligation.id), await journal.session('one')];
      if (given?.ended) given.ended.by['said'] = 'otherwise';
      known?.identities.push(carol);
      expect(await journal.obligation(bob, obligation.id)).toEqual(obligation);
      expect(await journal.session('one')).toEqual(session);
    });
  });
}

function aSession(id: string): SessionRecord {
  return {
    id,
    tokenHash: `hash of ${id}`,
    identities: [bob],
    roles: [AgentName.parse('reviewer')],
    streams: ['#dev', '#größe'],
    threads: ['thread' as MessageId],
    seen: 1,
  };
}

/** Enters the obligations that a scan found, however long ago. */
async function enterLook(
  journal: MailboxJournal,
  look: Awaited<ReturnType<MailboxJournal['unentered']>> | undefined,
): Promise<void> {
  if (!look) return;
  const obligations = look.copies.map(({ copy }) => anObligation({ id: copy.id, mailbox: copy.mailbox }));
  await journal.enter(look.from, look.upTo, obligations);
}

/** All pages. Each query begins after the last obligation of the page before. */
async function paged(ask: (page: ObligationPage) => Promise<Obligation[]>, limit: number): Promise<Obligation[][]> {
  const pages: Obligation[][] = [];
  for (let page = await ask({ limit }); page.length > 0; page = await ask({ after: page.at(-1), limit })) {
    pages.push(page);
  }
  return pages;
}

type Change =
  | { do: 'end'; as: Disposition; at: number }
  | { do: 'reopen' }
  | { do: 'defer'; due: number | null }
  | { do: 'leave' };

function changedBy(act: Change, obligation: Obligation): Obligation | null {
  switch (act.do) {
    case 'end':
      return { ...obligation, ended: { as: act.as, at: act.at, by: { test: true } } };
    case 'reopen':
      return { ...obligation, state: 'open', ended: null };
    case 'defer':
      return { ...obligation, state: 'deferred', due: act.due };
    case 'leave':
      return null;
  }
}
