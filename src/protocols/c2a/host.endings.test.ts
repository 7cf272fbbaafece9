import fc from 'fast-check';
import { expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import { anOwner, inChannel, withRole } from '../../../test/support/workspace.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import type { Receipt } from '../../core/receipt.ts';
import { SIGNALS } from '../../core/signal.ts';
import { edit, remove } from './edit.ts';

const lead = AgentName.parse('lead');
const bob = AgentName.parse('bob');
const FINAL = ['responded', 'acknowledged', 'ignored', 'superseded', 'failed'];
const HOUR = 3_600_000;

/** Messages that must, may, need not or must not be answered. */
const aText = fc.constantFrom(
  { to: '@lead', body: 'is it done?' },
  { to: '@lead', body: 'please merge', fields: { intent: 'approval' } },
  { to: '@lead', body: 'the build is green', fields: { intent: 'fyi' } },
  { to: '@lead', body: 'thanks!' },
  { to: '#c', body: '@lead can you look?' },
  { to: '#c', body: '@backend can one of you look?' },
  { to: '#c', body: 'lunch?' },
);

const anAct = fc.constantFrom(
  'nothing',
  'reply',
  'claim',
  'defer',
  'resolve',
  'edit',
  'delete',
  ...Object.keys(SIGNALS),
);

it('every event that was delivered ends in one way, whatever is done about it or not, and what was done is kept [C2A-104]', async () => {
  const seen = { policies: new Set<string>(), ends: new Set<string>() };
  const plan = fc.array(fc.record({ text: aText, isSoon: fc.boolean(), acts: fc.array(anAct, { maxLength: 3 }) }), {
    minLength: 5,
    maxLength: 12,
  });
  await fc.assert(
    fc.asyncProperty(plan, async (said) => {
      const host = await aHost('lead', 'bob', 'carol');
      const { workspace } = host;
      await anOwner(workspace, 'olga');
      await inChannel(workspace, '#c', 'lead', 'bob', 'carol');
      await withRole(workspace, 'backend', 'lead');
      await host.host.start();
      const wire = new FakeWire();
      await host.bind(wire, 'lead', { deliver: 'all' });
      const first = new Map<string, string>();
      const kept = new Map<string, Receipt['step'][]>();
      const note = async (): Promise<void> => {
        for (const { eventId, merged = [eventId], attention } of wire.delivered) {
          seen.policies.add(attention.policy);
          for (const id of merged) {
            const copy = (await workspace.own.journal.trace(MessageId.parse(id)))?.copies.find(
              (one) => one.mailbox === lead,
            );
            if (!copy) continue;
            const steps = copy.receipts.map(({ step }) => step);
            const before = kept.get(id) ?? [];
            expect(steps.slice(0, before.length)).toEqual(before);
            kept.set(id, steps);
            const end = (await workspace.own.journal.obligation(lead, copy.id))?.ended?.as ?? null;
            for (const [what, as] of Object.entries({ copy: copy.disposition, obligation: end })) {
              const key = `${what} ${id}`;
              if (as !== null && !first.has(key)) first.set(key, as);
              expect(as).toBe((first.get(key) ?? null) as typeof as);
            }
          }
        }
      };
      for (const [n, { text, isSoon, acts }] of said.entries()) {
        const { message } = await host.send('bob', text.to, text.body, text.fields);
        // Messages that arrive at once become one event.
        await host.pass(isSoon ? 10 : 6000);
        for (const act of acts) {
          await does(act, message.id, `${n}`).catch((error: Error) => expect(error.name).toBe('Refusal'));
          await note();
        }
      }
      for (let n = 0; n < 4; n += 1) {
        await host.pass(HOUR);
        await note();
      }
      for (const id of new Set(wire.delivered.flatMap(({ eventId, merged = [eventId] }) => merged))) {
        const copy = await workspace.own.journal.copy(lead, MessageId.parse(id));
        if (!copy) continue;
        expect(copy.disposition).toBeOneOf(FINAL as never[]);
        seen.ends.add(String(copy.disposition));
        const obligation = await workspace.own.journal.obligation(lead, copy.id);
        if (obligation) expect(obligation.ended?.as).toBeOneOf(FINAL as never[]);
      }

      async function does(act: string, id: MessageId, key: string): Promise<void> {
        const tool = async (name: Parameters<typeof host.call>[1], args: object): Promise<void> => {
          await host.call(wire, name, args);
        };
        switch (act) {
          case 'nothing':
            return host.pass(60_000);
          case 'reply': {
            const words = { target: `thread:${id}`, text: `see part ${key}`, inReplyTo: id, directedness: 'ambient' };
            return tool('chat.send_message', { ...words, idempotencyKey: key, visibility: 'thread' });
          }
          case 'claim':
            return tool('chat.claim', { eventId: id });
          case 'defer':
            return tool('chat.defer', { eventId: id, reason: 'later' });
          case 'resolve':
            return tool('chat.resolve', { eventId: id });
          case 'edit':
            return void (await edit(workspace, bob, workspace.own, id, { body: `in other words ${key}` }));
          case 'delete':
            return void (await remove(workspace, bob, workspace.own, id));
          default:
            return tool('chat.react', { inReplyTo: id, signal: act });
        }
      }
    }),
    { numRuns: 6, seed: 7 },
  );
  expect([...seen.policies].toSorted()).toEqual(['ack_only', 'may_respond', 'must_not_respond', 'must_respond']);
  expect([...seen.ends].toSorted()).toEqual(FINAL.toSorted());
});
