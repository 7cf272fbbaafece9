import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { aClock } from '../../test/support/clock.ts';
import { alice, aKey, aMessage, anEntry, anId, bob, carol, copiesFor, LOUD, QUIET } from '../../test/support/mail.ts';
import { parseAddress } from '../core/address.ts';
import type { Message } from '../core/message.ts';
import type { MessageId } from '../core/names.ts';
import { AgentName, MessageId as Id } from '../core/names.ts';
import type { MailboxJournal, Settlement } from '../core/ports/journal.ts';
import type { Claim, Mailboxes } from '../core/ports/mailboxes.ts';

/** A backend under test: how it is opened in a folder, and how another program adds a message to one of its mailboxes. */
export interface MailboxesBackend {
  root: () => string;
  open: (root: string, options: { now: () => number }) => Promise<OpenMailboxes>;
  leave: (root: string, mailbox: AgentName, message: Message) => void;
}

interface OpenMailboxes {
  mailboxes: Mailboxes;
  /** The journal of the mailboxes. */
  journal: MailboxJournal;
  close(): Promise<void>;
}

/** An open home, and what a test can do to it from outside. */
interface Subject extends OpenMailboxes {
  /** Moves the clock. */
  pass(ms: number): void;
  /** The same home opened a second time, as another process would. */
  another(): Promise<Mailboxes>;
  /** Adds a message to bob's mailbox as another program does. */
  leave(message: Message): void;
}

async function subjectOf({ root: newRoot, open, leave }: MailboxesBackend): Promise<Subject> {
  const { now, pass } = aClock();
  const root = newRoot();
  const home = await open(root, { now });
  const opened = [home];
  return {
    ...home,
    pass,
    another: async () => {
      const other = await open(root, { now });
      opened.push(other);
      return other.mailboxes;
    },
    leave: (message) => leave(root, bob, message),
    close: async () => {
      for (const one of opened) await one.close();
    },
  };
}

const LEASE = { ms: 30_000 };
/** A bearer's lease, which only time ends: copies held in this process's own name stay held, because it is alive. */
const BEARER = { ...LEASE, bearer: true };
const DONE: Settlement = { disposition: 'acknowledged', by: { test: true } };
const HOSTILE = [
  '../x',
  '..',
  '.',
  'a/b',
  'a\\b',
  '/etc/passwd',
  'a\0b',
  '',
  ' ',
  'x'.repeat(300),
  'a\nb',
  '-rf/',
  '~/x',
];

/** The promises of every backend of mailboxes. Each sentence of core/ports/mailboxes.ts is a test here. */
export function mailboxesContract(name: string, backend: MailboxesBackend): void {
  describe(`the ${name} spool`, () => {
    let here: Subject;
    let mailboxes: Mailboxes;
    beforeEach(async () => {
      here = await subjectOf(backend);
      ({ mailboxes } = here);
    });
    afterEach(() => here.close());

    /** A message that waits for bob. */
    async function arrived(fields: Partial<Message> = {}): Promise<Message> {
      return (await mailboxes.put(anEntry(fields))).message;
    }
    /** A message that waits for bob where no hook looks. */
    async function quiet(): Promise<Message> {
      return (await mailboxes.put(anEntry({}, { copies: [{ mailbox: bob, attention: QUIET }] }))).message;
    }
    async function waitingFor(mailbox: AgentName): Promise<MessageId[]> {
      return (await mailboxes.peek(mailbox)).map(({ message }) => message.id);
    }
    async function take(mailbox: AgentName, ids: MessageId[], from = mailboxes): Promise<MessageId[]> {
      const claim = await from.claim(mailbox, ids, LEASE);
      const held = claim.copies.map(({ message }) => message.id);
      return held.length > 0 && (await from.settle(claim, held, DONE)) ? held : [];
    }

    describe('when a message is put', () => {
      it('leaves an independent copy in every mailbox [BC-2]', async () => {
        const { message } = await mailboxes.put({ message: aMessage({ to: '#dev' }), copies: copiesFor(bob, carol) });
        expect(await take(bob, [message.id])).toEqual([message.id]);
        expect(await mailboxes.peek(carol)).toEqual([{ message, quiet: false }]);
        expect(await take(carol, [message.id])).toEqual([message.id]);
      });

      it('returns the message exactly as it was put [BC-5]', async () => {
        const message = await arrived({
          thread: anId(),
          refs: ['a.ts', 'b c'],
          scope: 'org/repo',
          body: 'ünï\u2028\n"',
        });
        expect(await mailboxes.read(bob, message.id)).toEqual({ message, quiet: false });
      });

      it('keeps urgent and normal mail in one place [BC-3]', async () => {
        const urgent = await arrived({ priority: 'urgent', ts: '2026-01-02T00:00:00.000Z' });
        const normal = await arrived({ ts: '2026-01-01T00:00:00.000Z' });
        expect(await waitingFor(bob)).toEqual([normal.id, urgent.id]);
      });

      it('answers a retry with the first id and adds nothing [BC-10]', async () => {
        const key = aKey();
        const first = await mailboxes.put(anEntry({}, { key }));
        const again = await mailboxes.put(anEntry({}, { key }));
        expect([first.first, again.first]).toEqual([true, false]);
        expect(again.message).toEqual(first.message);
        expect(again.copies.map((copy) => copy.mailbox)).toEqual([bob]);
        expect(await waitingFor(bob)).toEqual([first.message.id]);
      });

      it('keeps the keys of different senders apart', async () => {
        const key = aKey();
        await mailboxes.put(anEntry({}, { key }));
        expect((await mailboxes.put(anEntry({ from: carol }, { key }))).first).toBe(true);
        expect(await waitingFor(bob)).toHaveLength(2);
      });

      it('refuses a known key with another text, and stores nothing', async () => {
        const key = aKey();
        const { message } = await mailboxes.put(anEntry({}, { key }));
        const other = mailboxes.put(anEntry({ body: 'something else' }, { key }));
        await expect(other).rejects.toMatchObject({ code: 'key_conflict' });
        expect(await waitingFor(bob)).toEqual([message.id]);
      });

      it('lets many puts of one key at once agree on one message [BC-10]', async () => {
        const key = aKey();
        const answers = await Promise.all(Array.from({ length: 10 }, () => mailboxes.put(anEntry({}, { key }))));
        expect(new Set(answers.map(({ message }) => message.id)).size).toBe(1);
        expect(answers.filter(({ first }) => first)).toHaveLength(1);
        expect(await waitingFor(bob)).toEqual([answers[0]?.message.id as MessageId]);
      });

      it('lets many puts of one id at once arrive as one message [BC-10]', async () => {
        const entry = anEntry({}, { copies: copiesFor(bob, carol) });
        const answers = await Promise.all(Array.from({ length: 10 }, () => mailboxes.put(entry)));
        expect(answers.filter(({ first }) => first)).toHaveLength(1);
        expect(await waitingFor(bob)).toEqual([entry.message.id]);
        expect(await waitingFor(carol)).toEqual([entry.message.id]);
      });

      it('never stores a copy again that was taken [BC-10]', async () => {
        const entry = anEntry();
        await mailboxes.put(entry);
        expect(await take(bob, [entry.message.id])).toEqual([entry.message.id]);
        expect((await mailboxes.put(entry)).first).toBe(false);
        expect(await waitingFor(bob)).toEqual([]);
        expect(await take(bob, [entry.message.id])).toEqual([]);
      });

      it('lets 400 retries race 400 takes, and nothing is ever taken twice [BC-10]', async () => {
        const twice: MessageId[] = [];
        for (let round = 0; round < 400; round += 1) {
          const entry = anEntry({}, round % 2 === 0 ? { key: aKey() } : {});
          const { id } = (await mailboxes.put(entry)).message;
          const [taken] = await Promise.all([
            after(round % 11, () => take(bob, [id])),
            mailboxes.put(round % 4 === 0 ? { ...entry, message: { ...entry.message, id: anId() } } : entry),
          ]);
          const leftOver = await waitingFor(bob);
          const again = await take(bob, leftOver);
          if (taken.length + again.length !== 1 || leftOver.length > 1 - taken.length) twice.push(id);
        }
        expect(twice).toEqual([]);
      });

      it('lets 100 pairs of puts of one id race a take, and nothing is ever taken twice [BC-10]', async () => {
        const wrong: MessageId[] = [];
        for (let round = 0; round < 100; round += 1) {
          const entry = anEntry();
          const { id } = entry.message;
          const [, , taken] = await Promise.all([
            mailboxes.put(entry),
            after(round % 9, () => mailboxes.put(entry)),
            after(round % 31, () => take(bob, [id])),
          ]);
          const leftOver = await waitingFor(bob);
          const again = await take(bob, leftOver);
          if (taken.length + again.length !== 1 || leftOver.length > 1 - taken.length) wrong.push(id);
        }
        expect(wrong).toEqual([]);
      });

      it('puts a quiet copy where no hook looks, and it waits there', async () => {
        const message = aMessage();
        await mailboxes.put({ message, copies: [{ mailbox: bob, attention: QUIET }] });
        expect(await mailboxes.peek(bob)).toEqual([{ message, quiet: true }]);
        expect(await take(bob, [message.id])).toEqual([message.id]);
      });

      it('is durable before it answers: another process reads it [BC-8]', async () => {
        const message = await arrived();
        const other = await here.another();
        expect(await other.peek(bob)).toEqual([{ message, quiet: false }]);
        expect(await take(bob, [message.id], other)).toEqual([message.id]);
        expect(await waitingFor(bob)).toEqual([]);
      });

      it('takes no name that would leave its folder [BC-C5]', () => {
        expect(HOSTILE.filter((hostile) => AgentName.safeParse(hostile).success)).toEqual([]);
        // A dot is harmless once `.json` follows it. A slash is always refused.
        expect(HOSTILE.filter((hostile) => Id.safeParse(hostile).success)).toEqual(['..', '.']);
        for (const hostile of HOSTILE) expect(() => parseAddress(`@${hostile}`)).toThrow();
      });
    });

    describe('to a reader', () => {
      it('shows everything that waits, oldest first [BC-6]', async () => {
        const later = await arrived({ ts: '2026-03-01T00:00:00.000Z' });
        const first = await arrived({ ts: '2026-01-01T00:00:00.000Z' });
        const middle = await arrived({ ts: '2026-02-01T00:00:00.000Z' });
        expect(await waitingFor(bob)).toEqual([first.id, middle.id, later.id]);
        expect((await mailboxes.ids(bob)).toSorted()).toEqual([first.id, middle.id, later.id].toSorted());
      });

      it('lists the ids of loud copies alone if asked', async () => {
        const loud = await arrived();
        await quiet();
        expect(await mailboxes.ids(bob, true)).toEqual([loud.id]);
        expect(await mailboxes.ids(bob)).toHaveLength(2);
      });

      it('shows nothing in a mailbox that never got a message', async () => {
        expect(await mailboxes.peek(carol)).toEqual([]);
        expect(await mailboxes.ids(carol)).toEqual([]);
        expect(await mailboxes.read(carol, anId())).toBeNull();
      });

      it('can be peeked, listed and read any number of times without a claim [BC-6]', async () => {
        const { id } = await arrived();
        for (let round = 0; round < 3; round += 1) {
          expect(await waitingFor(bob)).toEqual([id]);
          expect(await mailboxes.ids(bob)).toEqual([id]);
          expect((await mailboxes.read(bob, id))?.message.id).toBe(id);
        }
        expect((await here.journal.copy(bob, id))?.state).toBe('stored');
      });
    });

    describe('when copies are claimed', () => {
      it('gives one copy to exactly one of many racing readers [BC-6]', async () => {
        const { id } = await arrived();
        const claims = await Promise.all(Array.from({ length: 20 }, () => mailboxes.claim(bob, [id], LEASE)));
        expect(claims.filter(({ copies }) => copies.length > 0)).toHaveLength(1);
        expect(new Set(claims.map(({ owner }) => owner)).size).toBe(20);
      });

      it('leaves out copies that another reader holds, and claims the rest [BC-6]', async () => {
        const [held, free] = [await arrived(), await arrived()];
        await mailboxes.claim(bob, [held.id], LEASE);
        const claim = await mailboxes.claim(bob, [held.id, free.id, anId()], LEASE);
        expect(claim.copies.map(({ message }) => message.id)).toEqual([free.id]);
      });

      it('hides a claimed copy, and counts the first attempt', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        expect(claim.copies[0]?.attempt).toBe(0);
        expect(await waitingFor(bob)).toEqual([]);
        expect(await mailboxes.read(bob, id)).toBeNull();
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([]);
      });

      it('claims more copies at once than one batch has', async () => {
        const ids: MessageId[] = [];
        for (let n = 0; n < 260; n += 1) ids.push((await arrived()).id);
        expect(await take(bob, ids)).toEqual(ids);
        expect(await waitingFor(bob)).toEqual([]);
      });

      it('never gives a copy of a live reader to another, however long it is held [BC-6]', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        here.pass(LEASE.ms * 100);
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([]);
        expect((await mailboxes.claim(bob, [id], LEASE)).copies).toEqual([]);
        expect(await mailboxes.settle(claim, [id], DONE)).toBe(true);
      });

      it('lets a claim expire, and delivers the copy again under the same id, marked [BC-6]', async () => {
        const { id } = await arrived();
        const lost = await mailboxes.claim(bob, [id], BEARER);
        here.pass(LEASE.ms + 1);
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([id]);
        const next = await mailboxes.claim(bob, [id], BEARER);
        expect(next.copies.map(({ message, attempt }) => [message.id, attempt])).toEqual([[id, 1]]);
        expect(await mailboxes.settle(lost, [id], DONE)).toBe(false);
        expect(await mailboxes.settle(next, [id], DONE)).toBe(true);
      });

      it('gives a copy with an expired claim to any reader that claims it by id, healed or not', async () => {
        const { id } = await arrived();
        await mailboxes.claim(bob, [id], BEARER);
        here.pass(LEASE.ms + 1);
        const next = await mailboxes.claim(bob, [id], BEARER);
        expect(next.copies.map(({ message, attempt }) => [message.id, attempt])).toEqual([[id, 1]]);
        expect(await mailboxes.settle(next, [id], DONE)).toBe(true);
      });

      it('renews a claim from now on', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], BEARER);
        here.pass(LEASE.ms - 1);
        expect(await mailboxes.renew(claim, BEARER)).toBe(true);
        here.pass(LEASE.ms - 1);
        await mailboxes.heal();
        expect((await mailboxes.claim(bob, [id], BEARER)).copies).toEqual([]);
        expect(await mailboxes.settle(claim, [id], DONE)).toBe(true);
      });

      it('does not renew a claim that is no longer held', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], BEARER);
        here.pass(LEASE.ms + 1);
        await mailboxes.claim(bob, [id], BEARER);
        expect(await mailboxes.renew(claim, BEARER)).toBe(false);
      });

      it('lets any process that knows the name of a bearer end its claim', async () => {
        const { id } = await arrived();
        const { owner } = await mailboxes.claim(bob, [id], { ...LEASE, bearer: true });
        expect(owner).toStartWith('bearer.');
        expect(await mailboxes.settle({ mailbox: bob, owner }, [id], DONE)).toBe(true);
      });

      it('uses the name that a bearer gives, and treats several claims under it as one', async () => {
        const ids = [(await arrived()).id, (await arrived()).id];
        for (const id of ids) await mailboxes.claim(bob, [id], { ...LEASE, bearer: 'session-7' });
        const claim = { mailbox: bob, owner: 'bearer.session-7' };
        expect(await mailboxes.renew(claim, BEARER)).toBe(true);
        expect(await mailboxes.settle(claim, ids, DONE)).toBe(true);
      });

      it('frees the copies of a bearer when the process that it names ends, and when its lease expires', async () => {
        const [one, two] = [(await arrived()).id, (await arrived()).id];
        const child = Bun.spawn(['sleep', '60']);
        const lease = { ...LEASE, process: child.pid };
        const first = await mailboxes.claim(bob, [one], { ...lease, bearer: 'session-7' });
        await mailboxes.claim(bob, [two], { ...lease, bearer: 'session-8', process: process.pid });
        expect((await mailboxes.claim(bob, [one, two], BEARER)).copies).toEqual([]);
        child.kill('SIGKILL');
        await child.exited;
        expect((await mailboxes.claim(bob, [one, two], BEARER)).copies.map(({ attempt }) => attempt)).toEqual([1]);
        expect(await mailboxes.settle(first, [one], DONE)).toBe(false);
        here.pass(LEASE.ms + 1);
        expect((await mailboxes.claim(bob, [two], BEARER)).copies.map(({ attempt }) => attempt)).toEqual([1]);
      });
    });

    describe('when copies are settled', () => {
      async function held(count = 1): Promise<{ claim: Claim; ids: MessageId[] }> {
        const ids: MessageId[] = [];
        for (let n = 0; n < count; n += 1) ids.push((await arrived()).id);
        return { claim: await mailboxes.claim(bob, ids, LEASE), ids };
      }

      it('shows once and ends them for good [BC-9]', async () => {
        const { claim, ids } = await held(2);
        let shown = 0;
        expect(await mailboxes.settle(claim, ids, DONE, () => (shown += 1))).toBe(true);
        expect(shown).toBe(1);
        here.pass(LEASE.ms + 1);
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([]);
        expect(await take(bob, ids)).toEqual([]);
      });

      it('shows nothing and returns false if this reader no longer holds one of them', async () => {
        const { claim, ids } = await held(2);
        await mailboxes.release(claim, ids.slice(0, 1), { because: 'test' });
        let shown = 0;
        expect(await mailboxes.settle(claim, ids, DONE, () => (shown += 1))).toBe(false);
        expect(shown).toBe(0);
        expect((await here.journal.copy(bob, ids[1] as MessageId))?.state).toBe('held');
      });

      it('settles no copy twice', async () => {
        const { claim, ids } = await held();
        expect(await mailboxes.settle(claim, ids, DONE)).toBe(true);
        let shown = 0;
        expect(await mailboxes.settle(claim, ids, DONE, () => (shown += 1))).toBe(false);
        expect(shown).toBe(0);
      });

      it('releases them and passes the error on if they cannot be shown', async () => {
        const { claim, ids } = await held(2);
        const broken = mailboxes.settle(claim, ids, DONE, () => {
          throw new Error('EPIPE');
        });
        await expect(broken).rejects.toThrow('EPIPE');
        expect((await waitingFor(bob)).toSorted()).toEqual(ids.toSorted());
        expect(await take(bob, ids)).toEqual(ids);
      });

      it('records in the journal how they ended, and whether they are kept [BC-9]', async () => {
        const { claim, ids } = await held();
        await mailboxes.settle(claim, ids, { disposition: 'responded', by: { reply: 'x' }, keep: true });
        expect(await here.journal.copy(bob, ids[0] as MessageId)).toMatchObject({
          state: 'settled',
          disposition: 'responded',
          settledBy: { reply: 'x' },
          keep: true,
        });
      });
    });

    describe('when copies are released', () => {
      it('puts them back at once', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        expect(await mailboxes.release(claim, [id], { because: 'busy' })).toEqual([id]);
        expect(await waitingFor(bob)).toEqual([id]);
        expect((await mailboxes.claim(bob, [id], LEASE)).copies[0]?.attempt).toBe(0);
      });

      it('puts a quiet copy back where no hook looks', async () => {
        const message = aMessage();
        await mailboxes.put({ message, copies: [{ mailbox: bob, attention: QUIET }] });
        const claim = await mailboxes.claim(bob, [message.id], LEASE);
        await mailboxes.release(claim, [message.id], { because: 'busy' });
        expect(await mailboxes.peek(bob)).toEqual([{ message, quiet: true }]);
      });

      it('puts them back after a delay, and not before, unless a reader claims one by id', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        expect(await mailboxes.release(claim, [id], { because: 'busy' }, 60_000)).toEqual([id]);
        here.pass(59_000);
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([]);
        expect(await mailboxes.peek(bob)).toEqual([]);
        const other = await arrived();
        const early = await mailboxes.claim(bob, [other.id], LEASE);
        await mailboxes.release(early, [other.id], { because: 'busy' }, 60_000);
        expect(await take(bob, [other.id])).toEqual([other.id]);
        here.pass(1001);
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([id]);
        expect((await mailboxes.claim(bob, [id], LEASE)).copies[0]?.attempt).toBe(0);
      });

      it('puts back only copies that this reader holds', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        expect(await mailboxes.release({ ...claim, owner: 'somebody else' }, [id], { because: 'test' })).toEqual([]);
        expect(await waitingFor(bob)).toEqual([]);
      });
    });

    describe('when a mailbox is reconciled', () => {
      /** A copy whose row says that it waits while its file is in held/: its reader stopped half-way. */
      async function leftInHand(attention = LOUD): Promise<Message> {
        const message = aMessage();
        await mailboxes.put({ message, copies: [{ mailbox: bob, attention }] });
        const { owner } = await mailboxes.claim(bob, [message.id], LEASE);
        await here.journal.release(bob, owner, [message.id], null, { because: 'test' });
        return message;
      }

      it('puts a copy in held/ that no reader holds back to where it waited', async () => {
        const [loud, quiet] = [await leftInHand(), await leftInHand(QUIET)];
        expect(await mailboxes.adopt(bob)).toBe(0);
        const waiting = (await mailboxes.peek(bob)).map(({ message, quiet: low }) => [message.id, low] as const);
        expect(new Map(waiting)).toEqual(
          new Map([
            [loud.id, false],
            [quiet.id, true],
          ]),
        );
        const claim = await mailboxes.claim(bob, [loud.id, quiet.id], LEASE);
        expect(claim.copies.map(({ attempt }) => attempt)).toEqual([0, 0]);
        expect(await mailboxes.settle(claim, [loud.id, quiet.id], DONE)).toBe(true);
      });

      it('leaves held and delayed copies alone', async () => {
        const [held, later] = [await arrived(), await arrived()];
        const claim = await mailboxes.claim(bob, [held.id, later.id], LEASE);
        await mailboxes.release(claim, [later.id], { because: 'busy' }, 60_000);
        await mailboxes.adopt(bob);
        expect(await waitingFor(bob)).toEqual([]);
        expect(await mailboxes.settle(claim, [held.id], DONE)).toBe(true);
      });

      it('gives such a copy to exactly one of many that reconcile and claim at once [BC-6]', async () => {
        const { id } = await leftInHand();
        const claims = await Promise.all(
          Array.from({ length: 20 }, async (_, n) =>
            after(n, async () => {
              await mailboxes.adopt(bob);
              return mailboxes.claim(bob, [id], LEASE);
            }),
          ),
        );
        const won = claims.filter(({ copies }) => copies.length > 0);
        expect(won.length).toBeLessThanOrEqual(1);
        await mailboxes.adopt(bob);
        // A reader that claimed during the put-back found the copy busy: then it waits.
        expect(await waitingFor(bob)).toEqual(won.length === 1 ? [] : [id]);
        expect((await here.journal.trace(id))?.copies[0]?.state).toBe(won.length === 1 ? 'held' : 'stored');
      });
    });

    describe('to a watcher', () => {
      /** Resolves when the watcher is called while this id waits. */
      function calledFor(id: () => MessageId | undefined): { onArrival: () => void; called: Promise<void> } {
        const { promise, resolve } = Promise.withResolvers<void>();
        const look = async (): Promise<void> => {
          const wanted = id();
          if (wanted && (await mailboxes.ids(bob)).includes(wanted)) resolve();
        };
        return { onArrival: () => void look(), called: promise };
      }

      it('reports every arrival, and claims nothing', async () => {
        let newest: MessageId | undefined;
        let call = calledFor(() => newest);
        const watch = mailboxes.watch(bob, () => call.onArrival());
        try {
          for (let round = 1; round <= 3; round += 1) {
            call = calledFor(() => newest);
            newest = anId();
            await arrived({ id: newest });
            await call.called;
            expect(await mailboxes.ids(bob)).toHaveLength(round);
          }
        } finally {
          watch.close();
        }
      });

      it('reports nothing after it is closed', async () => {
        let calls = 0;
        mailboxes.watch(bob, () => (calls += 1)).close();
        const id = anId();
        const { onArrival, called } = calledFor(() => id);
        const other = mailboxes.watch(bob, onArrival);
        await arrived({ id });
        await called;
        other.close();
        expect(calls).toBe(0);
      });

      it('reports a quiet copy when it is raised', async () => {
        const { id } = await quiet();
        const { promise, resolve } = Promise.withResolvers<void>();
        const watch = mailboxes.watch(
          bob,
          () => void mailboxes.read(bob, id).then((now) => now?.quiet === false && resolve()),
        );
        await mailboxes.raise(bob, id);
        await promise;
        watch.close();
      });

      it('reports mail that another process sent', async () => {
        const id = anId();
        const { onArrival, called } = calledFor(() => id);
        const watch = mailboxes.watch(bob, onArrival);
        await (await here.another()).put(anEntry({ id }));
        await called;
        watch.close();
      });
    });

    describe('when a sender withdraws or moves copies', () => {
      it('withdraws the copies that no reader has taken, and returns each one’s state', async () => {
        const { message } = await mailboxes.put({ message: aMessage(), copies: copiesFor(bob, carol) });
        const claim = await mailboxes.claim(carol, [message.id], LEASE);
        const copies = await mailboxes.withdraw(message.id, { withdrawn: true });
        expect(copies.map(({ mailbox, state }) => [mailbox, state])).toEqual([
          [bob, 'stored'],
          [carol, 'held'],
        ]);
        expect(await waitingFor(bob)).toEqual([]);
        expect(await take(bob, [message.id])).toEqual([]);
        expect(await here.journal.copy(bob, message.id)).toMatchObject({ state: 'settled', disposition: 'superseded' });
        expect(await mailboxes.settle(claim, [message.id], DONE)).toBe(true);
      });

      it('withdraws a copy that was released with a delay', async () => {
        const { id } = await arrived();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        await mailboxes.release(claim, [id], { because: 'busy' }, 1000);
        await mailboxes.withdraw(id, { withdrawn: true });
        here.pass(2000);
        await mailboxes.heal();
        expect(await waitingFor(bob)).toEqual([]);
      });

      it('moves a waiting copy out of a hook’s sight, where it still waits', async () => {
        const message = await arrived();
        await mailboxes.lower(bob, message.id);
        expect(await mailboxes.peek(bob)).toEqual([{ message, quiet: true }]);
        expect(await take(bob, [message.id])).toEqual([message.id]);
      });

      it('moves a quiet copy into a hook’s sight, where it still waits', async () => {
        const message = await quiet();
        expect(await mailboxes.raise(bob, message.id)).toBe(true);
        expect(await mailboxes.peek(bob)).toEqual([{ message, quiet: false }]);
        expect((await here.journal.copy(bob, message.id))?.attention).toEqual({ ...QUIET, injection: 'notify' });
        expect(await take(bob, [message.id])).toEqual([message.id]);
      });

      it('keeps the attention of a copy that is already loud, and returns false if none was quiet', async () => {
        const { id } = await quiet();
        await here.journal.reconsider(bob, id, LOUD);
        await mailboxes.raise(bob, id);
        expect(await mailboxes.raise(bob, id)).toBe(false);
        expect((await here.journal.copy(bob, id))?.attention).toEqual(LOUD);
        expect(await mailboxes.raise(bob, (await arrived()).id)).toBe(false);
        expect(await mailboxes.raise(bob, anId())).toBe(false);
        expect((await mailboxes.peek(bob)).map((waiting) => waiting.quiet)).toEqual([false, false]);
      });

      it('raises a copy again after it was lowered, any number of times', async () => {
        const { id } = await quiet();
        for (let round = 0; round < 2; round += 1) {
          await mailboxes.raise(bob, id);
          expect((await mailboxes.read(bob, id))?.quiet).toBe(false);
          await mailboxes.lower(bob, id);
          expect((await mailboxes.read(bob, id))?.quiet).toBe(true);
        }
        expect(await waitingFor(bob)).toEqual([id]);
      });

      it('raises a held copy when it is put back, and never one that has ended', async () => {
        const { id } = await quiet();
        const claim = await mailboxes.claim(bob, [id], LEASE);
        expect(await mailboxes.raise(bob, id)).toBe(false);
        expect(await waitingFor(bob)).toEqual([]);
        await mailboxes.release(claim, [id], { because: 'busy' });
        expect((await mailboxes.read(bob, id))?.quiet).toBe(false);
        const before = (await here.journal.copy(bob, id))?.attention;
        await take(bob, [id]);
        await here.journal.reconsider(bob, id, QUIET);
        expect(await mailboxes.raise(bob, id)).toBe(false);
        expect(before?.injection).toBe('notify');
        expect((await here.journal.copy(bob, id))?.attention).toEqual(QUIET);
      });

      it('removes a mailbox with everything in it, and no other', async () => {
        const { message } = await mailboxes.put({ message: aMessage(), copies: copiesFor(bob, carol) });
        await mailboxes.remove(bob);
        expect(await waitingFor(bob)).toEqual([]);
        expect(await waitingFor(carol)).toEqual([message.id]);
        await arrived();
        expect(await waitingFor(bob)).toHaveLength(1);
      });
    });

    describe('with other programs in the same home', () => {
      it('reads and delivers messages that they add, and makes the rows [BC-1]', async () => {
        const message = aMessage();
        here.leave({ ...message, extra: { of: 'another program' } } as typeof message);
        expect(await waitingFor(bob)).toEqual([message.id]);
        const claim = await mailboxes.claim(bob, [message.id], LEASE);
        expect(claim.copies.map((copy) => copy.message)).toMatchObject([message]);
        expect((await here.journal.copy(bob, message.id))?.state).toBe('held');
      });

      it('adopts messages that they added, each once', async () => {
        const { id } = await arrived();
        here.leave(aMessage());
        here.leave(aMessage());
        expect(await mailboxes.adopt(bob)).toBe(2);
        expect(await mailboxes.adopt(bob)).toBe(0);
        expect(await take(bob, [id])).toEqual([id]);
        expect(await waitingFor(bob)).toHaveLength(2);
      });

      it('gives such a message to exactly one of many racing readers [BC-6]', async () => {
        const message = aMessage();
        here.leave(message);
        const claims = await Promise.all(Array.from({ length: 20 }, () => mailboxes.claim(bob, [message.id], LEASE)));
        expect(claims.filter(({ copies }) => copies.length > 0)).toHaveLength(1);
      });

      it('ignores a key in a file if it already names another message', async () => {
        const key = aKey();
        const { message } = await mailboxes.put(anEntry({}, { key }));
        const forged = aMessage({ parley: { v: 1, key }, body: 'another' });
        here.leave(forged);
        expect((await take(bob, [message.id, forged.id])).toSorted()).toEqual([message.id, forged.id].toSorted());
        expect((await here.journal.underKey(alice, key))?.message.id).toBe(message.id);
      });
    });

    it('changes nothing in `heal` when nothing is wrong', async () => {
      const { id } = await arrived();
      await mailboxes.heal();
      await mailboxes.heal();
      expect(await waitingFor(bob)).toEqual([id]);
      expect(await mailboxes.asides()).toEqual([]);
    });

    it('can be closed twice', async () => {
      await mailboxes.close();
      await mailboxes.close();
    });
  });
}

/** Acts after some turns of the event loop, so that races run in many orders. */
async function after<T>(turns: number, act: () => Promise<T>): Promise<T> {
  for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
  return act();
}
