import fc from 'fast-check';
import { expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { seeded } from '../../../test/support/seeded.ts';
import type { ChatDeliver } from './shapes.ts';
import { AgentName } from '../../core/names.ts';

/** A harness that accepts every event that reaches it, keeps each once, and answers each. */
class Harness {
  readonly accepted: string[] = [];
  readonly lines = new Map<string, number[]>();
  wire = new FakeWire();

  constructor(readonly fate: () => number) {
    this.connect();
  }

  /** A new connection that loses one frame in ten and one answer in ten. */
  connect(): void {
    const wire = new FakeWire();
    wire.deliver = (params: ChatDeliver) => {
      const never = new Promise<void>(() => {});
      if (this.fate() < 0.1) return never;
      this.#keep(params);
      if (this.fate() < 0.1) this.#keep(params);
      return this.fate() < 0.1 ? never : Promise.resolve();
    };
    this.wire = wire;
  }

  #keep({ eventId, merged = [eventId], conversation, timing, injection }: ChatDeliver): void {
    if (injection.mode === 'notify' || this.accepted.includes(eventId)) return;
    this.accepted.push(...merged.filter((id) => !this.accepted.includes(id)));
    this.lines.set(conversation.id, [...(this.lines.get(conversation.id) ?? []), timing.sequence]);
  }
}

it('loses nothing, doubles nothing and keeps every order, whatever is dropped, and no matter who is killed [C2A-137] [C2A-104]', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 1_000_000 }), async (seed) => {
      const fate = seeded(seed);
      let host = await aHost('lead', 'a', 'b', 'c');
      await host.host.start();
      const harness = new Harness(fate);
      const { token } = await host.bind(harness.wire, 'lead');
      const sent: string[] = [];
      const done = new Set<string>();
      const answer = async (): Promise<void> => {
        for (const id of harness.accepted) {
          if (done.has(id) || fate() < 0.3) continue;
          await host.call(harness.wire, 'chat.react', { inReplyTo: id, signal: 'done' }).then(
            () => done.add(id),
            () => {},
          );
        }
      };
      for (let n = 0; n < 40; n += 1) {
        const from = ['a', 'b', 'c'][Math.floor(fate() * 2.99)] ?? 'a';
        sent.push((await host.send(from, '@lead', `see src/part${n}.ts:${n}`)).message.id);
        if (fate() < 0.5) await host.pass(Math.floor(fate() * 3000));
        if (fate() < 0.1) {
          host.host.gone(harness.wire);
          harness.connect();
          await host.bind(harness.wire, 'lead', { token });
        }
        if (fate() < 0.05) {
          // Killed: it does nothing more and releases nothing.
          host.host.gone(harness.wire);
          host = new TestHost(host.workspace);
          await host.host.start();
          harness.connect();
          await host.bind(harness.wire, 'lead', { token });
        }
        await answer();
      }
      // A frame that is lost again and again is sent again after 10, 20, 40 and then every 60 seconds: an hour is enough for each.
      for (let n = 0; n < 720 && done.size < sent.length; n += 1) {
        await host.pass(5000);
        await answer();
      }
      expect(harness.accepted.toSorted()).toEqual(sent.toSorted());
      for (const [, sequences] of harness.lines) expect(sequences).toEqual(sequences.toSorted((x, y) => x - y));
      for (const id of sent) {
        const copy = await host.workspace.own.journal.copy(AgentName.parse('lead'), id as never);
        expect(copy?.disposition).toBeOneOf(['responded', 'superseded']);
      }
    }),
    // In the first, one frame is lost four times in a row.
    { numRuns: 10, examples: [[4524]] },
  );
});
