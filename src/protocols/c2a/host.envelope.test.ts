// The envelope from outside: the real server and the real engine, in the time of a clock that a test moves.
import { describe, expect, it } from 'bun:test';
import { aHost } from '../../../test/support/host.ts';
import { EVERYTHING } from '../../../test/support/host-server.ts';
import { HostLine } from '../../../test/support/host-line.ts';
import { inChannel, withRole } from '../../../test/support/workspace.ts';
import { Directedness, Injection, Policy, Reason } from '../../core/attention/attention.ts';
import { ChatDeliver } from './shapes.ts';
import { AgentName } from '../../core/names.ts';

/** A host with lead, whose session is bound; bob, who writes; will, who is a person; and a channel. */
async function aTown(fields: object = {}, capabilities?: object) {
  const host = await aHost('lead', 'bob', 'dev');
  await host.host.start();
  await inChannel(host.workspace, '#c', 'lead', 'bob', 'dev');
  const line = await new HostLine(host).bind('lead', fields, capabilities);
  return { host, line };
}

const sorted = (words: Iterable<string>): string[] => [...words].toSorted();

describe('an acknowledgement', () => {
  it('takes an event from what is pending: it does not come again, in time or on another connection [C2A-10]', async () => {
    const host = await aHost('lead', 'bob');
    const token = 'a token of the harness, and long enough';
    const first = await new HostLine(host).bind('lead', { token });
    first.accepts = false;
    const pending = () => host.workspace.own.journal.copy(AgentName.parse('lead'), sent.message.id);
    const sent = await host.send('bob', '@lead', 'for your information', { intent: 'fyi' });
    await host.pass(11_000);
    expect(first.frames.map(({ params }) => params?.['eventId'])).toEqual([sent.message.id, sent.message.id]);
    expect(await first.listed()).toMatchObject([{ eventId: sent.message.id, proven: 'offered' }]);
    const second = await new HostLine(host).bind('lead', { token });
    await host.pass(1000);
    expect(second.frames).toHaveLength(1);
    expect(await second.listed()).toMatchObject([{ eventId: sent.message.id, proven: 'accepted' }]);
    const third = await new HostLine(host).bind('lead', { token });
    await host.pass(100_000);
    expect([second.frames.length, third.frames.length]).toEqual([1, 0]);
    expect(await pending()).toMatchObject({ state: 'held', disposition: null });
  });

  it('says nothing of what becomes of the event, whatever stands in it: that is told later, by itself [C2A-16]', async () => {
    const { host, line } = await aTown();
    line.accepts = false;
    const { message } = await host.send('bob', '@lead', 'please look');
    await host.pass(1000);
    const [frame] = line.frames;
    if (frame) line.answer(frame, { disposition: 'responded', done: true });
    await host.pass(1000);
    expect(await line.listed()).toMatchObject([{ eventId: message.id, proven: 'accepted', disposition: null }]);
    expect(await host.ended('lead', message.id)).toBeNull();
    await line.done('chat.react', { inReplyTo: message.id, signal: 'done' });
    expect(await line.listed()).toMatchObject([{ eventId: message.id, disposition: 'responded' }]);
  });
});

describe('an event', () => {
  it('lists everyone who is mentioned, whose copy it is, and how it is directed at that one [C2A-39]', async () => {
    const { host, line } = await aTown();
    const other = await new HostLine(host).bind('dev', { deliver: 'all' });
    await withRole(host.workspace, 'backend', 'bob');
    await host.send('bob', '#c', '@lead and @will, this is yours; @backend knows, `@dev` is only quoted');
    await host.pass(10_000);
    const mentions = ['agent:lead', 'human:will', 'role:backend'];
    expect(line.events.map(({ target }) => target)).toEqual([
      { mentions, recipient: 'agent:lead', directedness: 'to_me' },
    ]);
    expect(other.events.map(({ target }) => target)).toEqual([
      { mentions, recipient: 'agent:dev', directedness: 'to_other' },
    ]);
  });

  it('names who is at both ends for routing, and nobody’s title, rank or persona [C2A-4]', async () => {
    const { host, line } = await aTown();
    await withRole(host.workspace, 'lead', 'bob');
    await host.send('bob', '@lead', 'hello');
    await host.pass(10_000);
    expect(line.events.map(({ author, target }) => ({ author, target }))).toEqual([
      {
        author: { id: 'bob', kind: 'agent', displayName: 'bob' },
        target: { mentions: [], recipient: 'agent:lead', directedness: 'to_me' },
      },
    ]);
  });

  it('has its time in UTC, and a number that only grows within its conversation [C2A-40]', async () => {
    const { host, line } = await aTown({ deliver: 'all' });
    const surface = await new HostLine(host).surface();
    for (let n = 0; n < 30; n += 1) {
      const [to, author] = [n % 3 ? '@lead' : '#c', n % 2 ? 'bob' : 'dev'];
      await host.send(author, to, `@lead look at src/${n}.ts`, n % 5 ? {} : { intent: 'status' });
      await surface.done('surface/post', {
        messageId: `m${n}`,
        conversation: { id: 'D1', kind: 'dm' },
        author: { id: 'U1', kind: 'human' },
        recipient: 'lead',
        content: [{ type: 'text', text: `word ${n}` }],
        createdAt: '2026-03-02T11:00:00+01:00',
        sequence: 1000 - n,
      });
      if (n % 4 === 3) await surface.done('surface/edit', { messageId: `m${n}`, content: `better word ${n}` });
      await host.pass(90_000);
    }
    const late = await host.send('bob', '@lead', 'said before it comes');
    await host.pass(1000);
    const found = line.events.find(({ eventId }) => eventId === late.message.id);
    expect(found?.timing.createdAt).toBe(late.message.ts);
    const lines = Map.groupBy(line.events, ({ conversation }) => conversation.id);
    expect(sorted(lines.keys())).toEqual(['#c', 'digest:lead', 'dm:bob,lead', 'dm:dev,lead', 'dm:lead,slack.U1']);
    for (const events of lines.values()) {
      expect(events.length).toBeGreaterThan(1);
      // An event that is sent again has the same number.
      const numbers = [...new Map(events.map(({ eventId, timing }) => [eventId, timing.sequence])).values()];
      expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
      for (const { eventId, timing } of events) {
        expect(timing.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        expect(events.filter((one) => one.eventId === eventId && one.timing.sequence !== timing.sequence)).toEqual([]);
      }
    }
  });

  it('has a policy, a reason of the closed list, a priority, and always a deadline above zero [C2A-41] [C2A-151]', async () => {
    const { host, line } = await aTown({ deliver: 'all' });
    const intents = ['none', 'question', 'assignment', 'approval', 'blocker', 'fyi', 'status', 'thanks'];
    const past = new Date(host.workspace.now() - 60_000).toISOString();
    for (const [n, intent] of [...intents, ...intents].entries()) {
      await host.send(
        n % 2 ? 'bob' : 'will',
        n > 7 ? '#c' : '@lead',
        `@${n % 3 ? 'lead' : 'dev'} look at src/${n}.ts`,
        {
          intent,
          priority: n % 4 ? 'normal' : 'urgent',
          ...(n % 5 === 0 && { deadline: past }),
        },
      );
      await host.pass(200_000);
    }
    const noon = new Date(host.workspace.now() + 7000).toISOString();
    const soon = await host.send('bob', '@lead', 'by noon', { deadline: noon, priority: 'urgent' });
    await host.pass(1000);
    const attention = { deadlineMs: 7000, priority: 'urgent' };
    expect(line.events.find(({ eventId }) => eventId === soon.message.id)).toMatchObject({ attention });
    const reasons = new Set(line.events.map(({ attention }) => attention.reason));
    expect(reasons.size).toBeGreaterThan(6);
    for (const { attention } of line.events) {
      expect(sorted(Reason.inner.options)).toContain(attention.reason);
      expect(sorted(Policy.inner.options)).toContain(attention.policy);
      expect(attention.priority).toBeOneOf(['normal', 'urgent']);
      expect(attention.deadlineMs).toBeGreaterThan(0);
    }
    const [real] = line.events;
    expect(ChatDeliver.safeParse({ ...real, attention: { ...real?.attention, reason: 'mood' } }).success).toBe(false);
  });

  it('has what was said as typed parts: text, and whatever else it brings [C2A-46]', async () => {
    const { host, line } = await aTown();
    const surface = await new HostLine(host).surface();
    const ref = { type: 'ref', ref: 'https://ci.example/42', label: 'the log' };
    await host.send('bob', '@lead', 'see this', { refs: ['src/a.ts:1', 'db/042.sql'] });
    await surface.done('surface/post', {
      messageId: 'm1',
      conversation: { id: 'D1', kind: 'dm' },
      author: { id: 'U1', kind: 'human' },
      recipient: 'lead',
      content: [{ type: 'text', text: 'and that' }, ref],
    });
    await host.pass(5000);
    expect(line.events.map(({ content }) => content)).toMatchObject([
      [
        { type: 'text', text: 'see this' },
        { type: 'ref', ref: 'src/a.ts:1' },
        { type: 'ref', ref: 'db/042.sql' },
      ],
      [
        { type: 'text', text: 'and that' },
        { type: 'ref', ref: 'https://ci.example/42' },
      ],
    ]);
  });

  it('is directed in one of four ways and comes in one of six, each of which happens; no other is accepted [C2A-48] [C2A-50]', async () => {
    const { host, line } = await aTown({ deliver: 'all', roles: ['backend'] });
    const surface = await new HostLine(host).surface();
    await host.send('bob', '@lead', 'hello');
    await host.send('bob', '@lead', 'may I?', { intent: 'approval' });
    await host.send('bob', '#c', '@backend could one of you look?');
    await host.send('bob', '#c', '@dev this is yours');
    await host.send('bob', '#c', 'lunch');
    await host.send('bob', '#c', 'build 7 is green', { intent: 'status' });
    await surface.done('surface/post', {
      messageId: 'j',
      conversation: { id: 'c', kind: 'system' },
      author: { id: 'U1', kind: 'human' },
      content: [{ type: 'text', text: 'U1 joined' }],
    });
    await host.pass(20 * 60_000);
    const directed = new Set<string>(line.events.map(({ target }) => target.directedness));
    const modes = new Set<string>(line.events.map(({ injection }) => injection.mode));
    expect(sorted(directed)).toEqual(sorted(Directedness.inner.options));
    expect(sorted(modes)).toEqual(sorted(Injection.inner.options));
    const [real] = line.events;
    for (const fields of [
      { target: { ...real?.target, directedness: 'to_all' } },
      { target: { ...real?.target, directedness: undefined } },
      { injection: { ...real?.injection, mode: 'shouted' } },
      { injection: { ...real?.injection, mode: undefined } },
    ]) {
      expect(ChatDeliver.safeParse({ ...real, ...fields }).success).toBe(false);
    }
    const message = { target: '@bob', text: 'x', idempotencyKey: 'k', visibility: 'dm', directedness: 'to_all' };
    expect((await line.ask('chat.send_message', message)).error).toMatchObject({ data: { field: 'directedness' } });
  });

  it('can be directed, asked and shown in any combination [C2A-52]', async () => {
    const { host, line } = await aTown({}, { ...EVERYTHING, injection: { immediate: true, notify: true } });
    const full = await new HostLine(host).bind('dev');
    // A harness that can only get knocks gets a knock even for what must be answered; another gets the full text even of what may be.
    await host.send('bob', '@lead', 'please look');
    await host.send('bob', '@dev', 'the build is green again', { intent: 'fyi' });
    await host.pass(6000);
    expect(line.events).toMatchObject([{ attention: { policy: 'must_respond' }, injection: { mode: 'notify' } }]);
    expect(full.events).toMatchObject([{ attention: { policy: 'may_respond' }, injection: { mode: 'buffered' } }]);
    const [real] = full.events;
    for (const directedness of sorted(Directedness.inner.options))
      for (const policy of sorted(Policy.inner.options))
        for (const mode of sorted(Injection.inner.options)) {
          const any = {
            ...real,
            target: { ...real?.target, directedness },
            attention: { ...real?.attention, policy },
            injection: { ...real?.injection, mode },
          };
          expect(ChatDeliver.safeParse(any)).toMatchObject({ success: true });
        }
  });
});
