// In every order of operations, files and journal keep their promises, and both backends of mailboxes behave the same.
import fc from 'fast-check';
import { expect, it } from 'bun:test';
import { openBrokerHome } from '../../test/support/c2c-broker.ts';
import { aClock } from '../../test/support/clock.ts';
import { quickFolder } from '../../test/support/quick-home.ts';
import { alice, anEntry, bob, carol, LOUD, QUIET } from '../../test/support/mail.ts';
import { openHome } from '../../test/support/maildir.ts';
import type { MessageId } from '../core/names.ts';
import { SendKey } from '../core/names.ts';
import type { MailboxJournal } from '../core/ports/journal.ts';
import type { Claim, Mailboxes } from '../core/ports/mailboxes.ts';

const LEASE = { ms: 1000, bearer: true };

/** One operation. Its numbers pick the message, the reader or the claim. */
const Act = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('put' as const), n: fc.nat(4), keyed: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('claim' as const), n: fc.nat(4), all: fc.boolean() }) },
  fc.record({ do: fc.constant('settle' as const), n: fc.nat(9), keep: fc.boolean(), fails: fc.boolean() }),
  fc.record({ do: fc.constant('release' as const), n: fc.nat(9), delay: fc.constantFrom(0, 700) }),
  fc.record({ do: fc.constant('renew' as const), n: fc.nat(9) }),
  fc.record({ do: fc.constant('withdraw' as const), n: fc.nat(4) }),
  fc.record({ do: fc.constant('raise' as const), n: fc.nat(4) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(400, 1100) }),
  fc.record({ do: fc.constant('heal' as const) }),
);
type Act = typeof Act extends fc.Arbitrary<infer T> ? T : never;

/** Mailboxes, and what the test remembers about them. */
class Story {
  readonly claims: Claim[] = [];
  readonly settled: MessageId[] = [];

  constructor(
    readonly mailboxes: Mailboxes,
    readonly journal: MailboxJournal,
  ) {}

  async tell(act: Act): Promise<unknown> {
    const { mailboxes } = this;
    switch (act.do) {
      case 'put': {
        const copies = [
          { mailbox: bob, attention: act.n % 2 === 0 ? LOUD : QUIET },
          { mailbox: carol, attention: LOUD },
        ];
        const entry = anEntry({ id: this.#id(act.n), ts: this.#ts(act.n) }, { copies });
        const key = SendKey.parse(`key-${act.n}`);
        return (await mailboxes.put(act.keyed ? { ...entry, key } : entry)).first;
      }
      case 'claim': {
        const claim = await mailboxes.claim(bob, act.all ? await this.#ids() : [this.#id(act.n)], LEASE);
        if (claim.copies.length > 0) this.claims.push(claim);
        return claim.copies.map(({ message, attempt }) => `${message.id} ${attempt}`).toSorted();
      }
      case 'settle':
        return this.#settle(act.n, act.keep, act.fails);
      case 'release': {
        const claim = this.claims[act.n];
        return claim && (await mailboxes.release(claim, idsOf(claim), { because: 'test' }, act.delay)).toSorted();
      }
      case 'renew': {
        const claim = this.claims[act.n];
        return claim && (await mailboxes.renew(claim, LEASE));
      }
      case 'withdraw':
        return (await mailboxes.withdraw(this.#id(act.n), { by: alice })).map(({ mailbox, state }) => [mailbox, state]);
      case 'raise':
        return mailboxes.raise(bob, this.#id(act.n));
      case 'heal':
        return mailboxes.heal();
      case 'pass':
        return null;
      default:
        return act satisfies never;
    }
  }

  /** The whole state that callers can see. */
  async now(): Promise<unknown> {
    const waiting = await this.mailboxes.peek(bob);
    const states = await Promise.all([0, 1, 2, 3, 4].map((n) => this.journal.copy(bob, this.#id(n))));
    return {
      waiting: waiting.map(({ message, quiet }) => [message.id, quiet]),
      ids: (await this.#ids()).toSorted(),
      states: states.map((copy) => copy && [copy.state, copy.attempt, copy.disposition, copy.keep]),
    };
  }

  async #settle(n: number, keep: boolean, fails: boolean): Promise<unknown> {
    const claim = this.claims[n];
    if (!claim) return null;
    const show = (): void => {
      if (fails) throw new Error('EPIPE');
      this.settled.push(...idsOf(claim));
    };
    const settlement = { disposition: 'acknowledged', by: {}, keep } as const;
    return this.mailboxes.settle(claim, idsOf(claim), settlement, show).catch(String);
  }

  async #ids(): Promise<MessageId[]> {
    return this.mailboxes.ids(bob);
  }

  #id(n: number): MessageId {
    return `message-${n}` as MessageId;
  }

  #ts(n: number): string {
    return `2026-01-0${n + 1}T00:00:00.000Z`;
  }
}

function idsOf(claim: Claim): MessageId[] {
  return claim.copies.map(({ message }) => message.id);
}

it('a maildir and a broker never show and settle a copy twice, and agree on every step [BC-6, BC-10]', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(Act, { minLength: 5, maxLength: 25 }), async (acts) => {
      const clock = aClock();
      const homes = [await openHome(quickFolder(), clock), await openBrokerHome(quickFolder(), clock)] as const;
      const [maildir, broker] = homes.map(({ mailboxes, journal }) => new Story(mailboxes, journal)) as [Story, Story];
      for (const act of acts) {
        if (act.do === 'pass') clock.pass(act.ms);
        expect(await maildir.tell(act)).toEqual(await broker.tell(act));
        expect(await maildir.now()).toEqual(await broker.now());
        for (const { settled } of [maildir, broker]) expect(new Set(settled).size).toBe(settled.length);
      }
      for (const home of homes) await home.close();
    }),
    { numRuns: 120 },
  );
});
