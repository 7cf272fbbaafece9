// Sessions that share the mailbox of their client, as the follower gives them its mail.
import { describe, expect, it, onTestFinished } from 'bun:test';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { alice } from '../../test/support/mail.ts';
import { ScriptedLive } from '../../test/support/scripted-live.ts';
import { within } from '../../test/support/within.ts';
import { aWorkspace } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import type { Draft } from '../core/message.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import type { Trace } from '../core/ports/journal.ts';
import { owe } from '../core/obligations/owed.ts';
import { fenced, peopleAmong } from './fit.ts';
import { Follower } from './follower.ts';

const SHARED = 'claude' as AgentName;

/** Sessions `a` and `b` of one client; each has the name `claude.<id>`. */
async function aRig(waitMs: (session: string) => number = () => 0, idleSince: Record<string, number> = {}) {
  const workspace = await aWorkspace('alice', 'claude', 'claude.a', 'claude.b');
  const claude = new ScriptedLive('claude', workspace.now);
  const copiesOf = async (id: MessageId): Promise<Trace['copies']> =>
    (await workspace.own.journal.trace(id))?.copies ?? [];
  return {
    workspace,
    claude,
    copiesOf,
    follow(wakesPerHour = 30): Follower {
      const follower = new Follower({
        workspace,
        clients: new Map([['claude', claude]]),
        async mailboxesOf({ id }) {
          const taker = `claude.${id}` as AgentName;
          return [
            { who: workspace.who(taker), match: '' },
            {
              who: workspace.who(SHARED),
              taker,
              match: '',
              idleSince: idleSince[id] ?? 0,
              waitMs: async () => waitMs(id),
            },
          ];
        },
        hookRecordOf: () => null,
        phrases: async ({ name: reader, home }, mail, now) =>
          fenced({ reader, mark: 'abc', now, ago: () => 'just now', people: await peopleAmong(home, mail) }),
        settings: { wakesPerHour, captureRemote: false },
        log: () => {},
        limits: { lookMs: 50, tickMs: 50 },
      });
      onTestFinished(() => follower.close());
      return follower;
    },
    send: async (draft: Partial<Draft> = {}) =>
      (await send(workspace, alice, aDraft({ to: `@${SHARED}`, ...draft }))).message.id,
    taker: async (id: MessageId) =>
      (await copiesOf(id)).find(({ mailbox }) => mailbox === SHARED)?.settledBy?.['taker'],
  };
}

describe('mail for a mailbox that sessions share', () => {
  it('goes to one session, each message once, and then belongs to that session, with its proof', async () => {
    const rig = await aRig();
    rig.claude.add('a').add('b');
    rig.follow();
    const ids: MessageId[] = [];
    for (let n = 1; n <= 12; n += 1) ids.push(await rig.send({ body: `letter ${n}.` }));
    for (const id of ids) await within(10_000, async () => (await rig.taker(id)) !== undefined);
    const all = [...rig.claude.texts('a'), ...rig.claude.texts('b')].join('\n');
    for (let n = 1; n <= 12; n += 1) expect(all.split(`letter ${n}.`)).toHaveLength(2);
    for (const id of ids) {
      const taker = await rig.taker(id);
      const copies = await rig.copiesOf(id);
      const own = copies.find(({ mailbox }) => mailbox === taker);
      expect(own?.receipts.map(({ step }) => step)).toEqual(['offered', 'shown']);
      expect(rig.claude.got.get(String(taker).replace('claude.', ''))?.map((parcel) => parcel.id)).toContain(id);
    }
  });

  it('comes whole, and not as a digest for one session, when no session may be woken again', async () => {
    const rig = await aRig();
    rig.claude.add('a').add('b');
    rig.follow(1);
    for (const body of ['one', 'two']) {
      const id = await rig.send({ body, intent: 'fyi' });
      await within(10_000, async () => (await rig.taker(id)) !== undefined);
    }
    const ids = [await rig.send({ body: 'three', intent: 'fyi' }), await rig.send({ body: 'four', intent: 'fyi' })];
    for (const id of ids)
      await within(10_000, async () => (await rig.copiesOf(id))[0]?.receipts.at(-1)?.step === 'reconsidered');
    rig.claude.sessions.delete('a');
    rig.claude.add('b', { status: 'active' });
    for (const id of ids) await within(10_000, async () => (await rig.taker(id)) === 'claude.b');
    expect(rig.claude.texts('b').join()).toContain('four');
  });

  it('names the session that it is given to, and goes to the one that is idle longest', async () => {
    const rig = await aRig(undefined, { a: 2000, b: 1000 });
    rig.claude.add('a').add('b');
    const id = await rig.send();
    rig.follow();
    await within(10_000, async () => (await rig.taker(id)) === 'claude.b');
    expect(rig.claude.texts('b')[0]).toStartWith('[parley abc] Mail for @claude.b.');
    expect(rig.claude.texts('a')).toEqual([]);
  });

  it('is left to the preferred session until its time is over', async () => {
    const waits = { a: 60_000, b: 0 };
    const rig = await aRig((session) => waits[session as 'a' | 'b']);
    rig.claude.add('a');
    const id = await rig.send();
    rig.follow();
    rig.claude.add('b');
    await within(10_000, async () => (await rig.taker(id)) === 'claude.b');
    const second = await rig.send();
    rig.claude.sessions.delete('b');
    waits.a = 0;
    rig.claude.changed();
    await within(10_000, async () => (await rig.taker(second)) !== undefined);
  });

  it('is owed by its taker, whose captured answer goes back under its own name', async () => {
    const rig = await aRig();
    rig.claude.mode = 'silent';
    rig.claude.add('a');
    const id = await rig.send({ body: 'which port?', intent: 'question' });
    rig.follow();
    await within(10_000, async () => rig.claude.texts('a').length === 1);
    rig.claude.show('a', id, { id: 'turn', end: { how: 'done', text: '4711' } });
    const { own } = rig.workspace;
    await within(10_000, async () => (await own.mailboxes.ids(alice)).length === 1);
    const [answer] = await own.mailboxes.peek(alice);
    expect(answer?.message).toMatchObject({ from: 'claude.a', body: '4711', thread: id });
    for (const name of ['claude', 'claude.a'] as AgentName[])
      expect((await owe(rig.workspace.who(name), { limit: 5 })).obligations).toEqual([]);
  });

  it('waits during a quiet time of the session that would take it', async () => {
    const rig = await aRig();
    await rig.workspace.own.directory.amend('claude.a' as AgentName, () => ({ quiet: { on: true } }));
    rig.claude.add('a');
    rig.follow();
    const id = await rig.send();
    const isNoted = async (): Promise<boolean> => JSON.stringify(await rig.copiesOf(id)).includes('wants quiet');
    await within(10_000, isNoted);
    expect(rig.claude.texts('a')).toEqual([]);
    rig.claude.add('b');
    await within(10_000, async () => (await rig.taker(id)) === 'claude.b');
  });

  it('waits for the others again when the client cannot have it any more, and keeps its taker after a restart', async () => {
    const rig = await aRig();
    rig.claude.mode = 'silent';
    rig.claude.add('a');
    const [lost, shown] = [await rig.send({ body: 'lost.' }), await rig.send({ body: 'shown.' })];
    const first = rig.follow();
    await within(10_000, async () => rig.claude.texts('a').length > 0);
    await first.close();
    const given = rig.claude.got.get('a')?.map(({ id }) => id) ?? [];
    for (const id of given.filter((one) => one !== lost)) rig.claude.show('a', id);
    rig.claude.sessions.clear();
    rig.claude.mode = 'prove';
    rig.claude.add('b');
    rig.follow();
    for (const id of [lost, shown]) await within(10_000, async () => (await rig.taker(id)) !== undefined);
    expect(await rig.taker(lost)).toBe('claude.b');
    expect(await rig.taker(shown)).toBe(given.includes(shown) ? 'claude.a' : 'claude.b');
  });
});
