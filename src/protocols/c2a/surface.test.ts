import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { inChannel } from '../../../test/support/workspace.ts';
import { TestSurface } from '../../../test/support/surface.ts';
import { ChatDeliver, SURFACE } from './shapes.ts';
import { AgentName, MessageId } from '../../core/names.ts';

const C1 = { id: 'C1', kind: 'channel' };

async function aTown(...agents: string[]) {
  const host = await aHost('lead', ...agents);
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  const surface = await new TestSurface(host).bind();
  return { host, wire, surface };
}

const said = (fields: object): object => ({
  text: 'hello',
  idempotencyKey: 'k',
  visibility: 'dm',
  directedness: 'to_me',
  ...fields,
});

describe('what people write at a surface', () => {
  it('arrives with where it comes from and who wrote it [C2A-36] [C2A-37] [C2A-38]', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'hello', { author: { id: 'U1', kind: 'human', displayName: 'Wilma' } });
    await surface.post('B1', { id: 'C1', kind: 'thread', threadId: 'root' }, '@lead done', {
      author: { id: 'B1', kind: 'agent' },
    });
    await host.pass(5000);
    expect(wire.delivered.toSorted((a, b) => a.timing.sequence - b.timing.sequence)).toMatchObject([
      {
        source: { platform: 'slack', workspaceId: 'T1' },
        conversation: { id: 'dm:lead,slack.U1', kind: 'dm' },
        author: { id: 'slack.U1', kind: 'human', displayName: 'Wilma' },
      },
      {
        source: { platform: 'slack', workspaceId: 'T1' },
        conversation: { id: '#C1', kind: 'thread', streamId: '#C1', threadId: 'slack.root' },
        author: { id: 'slack.B1', kind: 'agent' },
      },
    ]);
  });

  it('can be of all five kinds and no other, and who joined is before no model [C2A-45] [C2A-77]', async () => {
    const host = await aHost('lead');
    const wire = new FakeWire();
    await host.bind(wire, 'lead', { deliver: 'all' });
    const surface = await new TestSurface(host).bind();
    await inChannel(host.workspace, '#C1', 'lead');
    await surface.dm('U1', 'lead', 'a');
    await surface.post('U1', C1, 'b');
    await surface.post('U1', { ...C1, kind: 'thread', threadId: 'x' }, 'c');
    await surface.post('U1', { ...C1, kind: 'system' }, 'U2 joined');
    await surface.post('U1', { ...C1, kind: 'tool' }, 'build 7 ended');
    await surface.post('U1', { ...C1, kind: 'tool' }, '@lead build 8 failed', { intent: 'blocker' });
    await host.pass(3_600_000);
    // A digest always has the kind system.
    const brought = wire.delivered.filter(({ source }) => source.platform === 'slack');
    const kinds = new Set(brought.map(({ conversation }) => conversation.kind));
    expect([...kinds].toSorted()).toEqual(['channel', 'dm', 'system', 'thread', 'tool']);
    await expect(surface.post('U1', { ...C1, kind: 'group' }, 'd')).rejects.toThrow('use dm, channel, thread');
    const odd = wire.delivered.map((frame) => ({ ...frame, conversation: { ...frame.conversation, kind: 'group' } }));
    expect(odd.some((frame) => ChatDeliver.safeParse(frame).success)).toBe(false);
    expect(wire.prompts.join('\n')).not.toContain('joined');
    const { events } = await host.call(wire, 'chat.list_events', { stream: '#C1' });
    expect(JSON.stringify(events)).toContain('build 7 ended');
    expect(JSON.stringify(events)).not.toContain('U2 joined');
  });

  it('has one id for ever, however often it is brought [C2A-8]', async () => {
    const { host, wire, surface } = await aTown();
    const first = await surface.dm('U1', 'lead', 'hello', { messageId: '1748890000.000100' });
    const second = await surface.dm('U1', 'lead', 'hello', { messageId: '1748890000.000100' });
    expect(first.eventId).toBe(MessageId.parse('slack.1748890000.000100'));
    expect(second).toEqual({ ...first, first: false });
    await host.pass(5000);
    expect(wire.ids).toEqual([first.eventId]);
    const other = surface.dm('U1', 'lead', 'something else', { messageId: '1748890000.000100' });
    await expect(other).rejects.toMatchObject({ code: 'key_conflict' });
  });

  it('keeps its order, also where its frames overtake each other [C2A-7]', async () => {
    const { host, wire, surface } = await aTown();
    await inChannel(host.workspace, '#C1', 'lead');
    const posts = [1, 2, 4, 3, 5, 7, 6].map((sequence) =>
      surface.post('U1', C1, `@lead word ${sequence}`, { sequence }),
    );
    await host.pass(10_000);
    await Promise.all(posts);
    await host.pass(40_000);
    const words = wire.texts.flatMap((text) => [...text.matchAll(/word (\d)/g)].map(([, n]) => Number(n)));
    expect(words).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it('reaches an agent that is mentioned in a public channel, and none in a private one', async () => {
    const { host, wire, surface } = await aTown();
    await surface.post('U1', C1, '@lead are you there?');
    await surface.post('U1', { id: 'P1', kind: 'channel', private: true }, '@lead the merger is on friday');
    await host.pass(5000);
    expect(wire.texts).toEqual(['@lead are you there?']);
  });

  it('in a private conversation is shown to nobody who is not in it, not even that it exists [C2A-167]', async () => {
    const { host, wire, surface } = await aTown();
    const secret = await surface.post(
      'U1',
      { id: 'P1', kind: 'channel', private: true },
      '@lead the merger is on friday',
    );
    const { events } = await host.call(wire, 'chat.list_events', {});
    expect(events).toEqual([]);
    await host.pass(10_000);
    expect(wire.delivered).toEqual([]);
    const [hidden, unknown] = await Promise.all(
      [secret.eventId, 'slack.nothing'].map((eventId) =>
        host
          .call(wire, 'chat.read_thread', { eventId })
          .catch((error: Error) => error.message.replaceAll(eventId, '?')),
      ),
    );
    expect(hidden).toBe(unknown);
    await inChannel(host.workspace, '#P1', 'lead');
    const read = await host.call(wire, 'chat.read_thread', { eventId: secret.eventId });
    expect(JSON.stringify(read)).toContain('merger');
  });

  it('is taken as fast as it comes, up to a limit; the rest waits its turn, and too much is told so [C2A-169]', async () => {
    const { workspace } = await aHost('lead');
    const host = new TestHost(workspace, {
      limits: { postsPerSecond: 100, postsAtOnce: 100, postsWaiting: 500, sendsAtOnce: 5, sendsPerSecond: 1 },
    });
    const surface = await new TestSurface(host).bind();
    const burst = Array.from({ length: 1000 }, (_, n) =>
      surface.post('U1', { id: `C${n % 7}`, kind: 'channel' }, `word ${n}`).then(
        () => 'stored',
        (error: { code: string }) => error.code,
      ),
    );
    await host.pass(10_000);
    const outcomes = await Promise.all(burst);
    expect(outcomes.filter((one) => one === 'stored')).toHaveLength(600);
    expect(outcomes.filter((one) => one === 'busy')).toHaveLength(400);
    const stored = (await workspace.own.journal.history({ limit: 2000 })).length;
    expect(stored).toBe(600);
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const sends = Array.from({ length: 6 }, (_, n) =>
      host
        .call(wire, 'chat.send_message', said({ target: '@will', text: `number ${n} of 6`, idempotencyKey: `k${n}` }))
        .then(
          () => 'sent',
          (error: { code: string }) => error.code,
        ),
    );
    expect(await Promise.all(sends)).toEqual([...Array.from({ length: 5 }, () => 'sent'), 'busy']);
  });

  it('has edits and reactions under the same limits, and so has what agents react [C2A-169]', async () => {
    const { workspace } = await aHost('lead');
    const host = new TestHost(workspace, {
      limits: { postsPerSecond: 1, postsAtOnce: 3, postsWaiting: 0, sendsAtOnce: 1, sendsPerSecond: 1 },
    });
    const surface = await new TestSurface(host).bind();
    const busy = { code: 'busy' };
    const { eventId } = await surface.dm('U1', 'lead', 'hello', { messageId: 'a' });
    await surface.edit('a', 'hello there');
    await surface.react('U2', 'a', { glyph: '👀' });
    await expect(surface.edit('a', 'hello again')).rejects.toMatchObject(busy);
    await expect(surface.react('U2', 'a', { glyph: '👍' })).rejects.toMatchObject(busy);
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const react = (signal: string) => host.call(wire, 'chat.react', { inReplyTo: eventId, signal });
    await react('seen');
    await expect(react('agree')).rejects.toMatchObject(busy);
  });
});

describe('a surface', () => {
  it('cannot speak for an agent of this home, whatever its platform is called', async () => {
    const { host, surface } = await aTown('web.ci');
    await expect(new TestSurface(host, 'web').bind()).rejects.toMatchObject({ code: 'name_taken' });
    await surface.dm('U1', 'lead', 'hello');
    await new TestSurface(host).bind();
  });

  it('cannot read a conversation of another platform that has the same name as one of its own', async () => {
    const { host, surface } = await aTown();
    const other = await new TestSurface(host, 'irc').bind();
    await surface.post('U1', { ...C1, private: true }, 'the plan');
    await expect(other.post('eve', C1, 'hello?')).rejects.toMatchObject({ code: 'name_taken' });
    await surface.post('U1', { ...C1, private: true }, 'the second plan');
    await host.pass(5000);
    expect([...other.wire.shown, ...surface.wire.shown]).toEqual([]);
  });

  it('gives nobody another’s name: where somebody is called like an agent, its own name is told [C2A-164]', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'drop the table', { author: { id: 'U1', kind: 'human', displayName: 'Will' } });
    await surface.dm('U2', 'lead', 'do not', { author: { id: 'U2', kind: 'human', displayName: 'Wilma' } });
    await host.pass(5000);
    expect(wire.delivered.map(({ author }) => author.displayName)).toEqual(['slack.U1', 'Wilma']);
  });
});

describe('reactions at a surface', () => {
  it('subscribe nobody to a channel that is not shown there', async () => {
    const { host, surface } = await aTown('bob');
    await inChannel(host.workspace, '#secret', 'lead', 'bob');
    const { message } = await host.send('bob', '#secret', 'the plan');
    await surface.react('U1', message.id, { signal: 'seen' });
    expect((await host.workspace.own.directory.get(AgentName.parse('slack.U1')))?.subscriptions).toEqual([]);
    await host.send('bob', '#secret', 'the second plan');
    await host.pass(5000);
    expect(surface.wire.shown).toEqual([]);
  });

  it('of one person to another there are not shown there a second time', async () => {
    const { host, surface } = await aTown();
    await surface.post('U1', C1, 'the build is red');
    await surface.react('U2', 'm1', { glyph: '👍' });
    await host.pass(5000);
    expect(surface.wire.shown).toEqual([]);
  });

  it('have an id of one line', () => {
    const reaction = { messageId: 'm1', reactionId: 'a\nb', author: 'U1', signal: 'seen' };
    expect(SURFACE['surface/react'].safeParse(reaction)).toMatchObject({ success: false, path: 'reactionId' });
  });

  it('are typed and cost no turn; the meaning arrives, never the sign [C2A-113]', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'what do you propose?');
    await host.pass(5000);
    const { eventId } = await host.call(
      wire,
      'chat.send_message',
      said({ target: '@slack.U1', text: 'I propose to wait.' }),
    );
    const before = wire.delivered.length;
    expect(await surface.react('U1', String(eventId), { glyph: '👍', signal: 'agree' })).toMatchObject({
      signal: 'agree',
    });
    await host.pass(60_000);
    expect(wire.delivered).toHaveLength(before);
    const { events } = await host.call(wire, 'chat.list_events', {});
    expect(events).toMatchObject([{ signal: 'agree', inReplyTo: eventId, from: 'slack.U1' }, {}]);
    expect(JSON.stringify(events)).not.toContain('👍');
  });

  it('with a sign that means nothing here are kept and shown as they are, and do nothing [C2A-117] [C2A-D7]', async () => {
    const { host, wire, surface } = await aTown();
    const asked = await surface.dm('U1', 'lead', 'could you look?', { messageId: 'm' });
    await host.pass(5000);
    expect(await surface.react('U1', 'm', { glyph: '🦄' })).toMatchObject({ signal: 'x-u1f984' });
    expect(await host.ended('lead', asked.eventId)).toBeNull();
    await host.call(wire, 'chat.react', { inReplyTo: asked.eventId, signal: 'x-party' });
    expect(await host.ended('lead', asked.eventId)).toBeNull();
    expect(surface.wire.shown).toMatchObject([{ what: 'reaction', target: 'm', signal: 'x-party' }]);
    const { messages } = await host.call(wire, 'chat.read_thread', { eventId: asked.eventId });
    expect(messages).toMatchObject([{ text: 'could you look?' }, { signal: 'x-u1f984' }, { signal: 'x-party' }]);
  });

  it('to a message that has not come yet are kept until it does [C2A-N17]', async () => {
    const { host, surface } = await aTown();
    await surface.react('U1', 'later', { signal: 'done', recipient: 'lead' });
    const { eventId } = await surface.dm('U1', 'lead', 'please do it', { messageId: 'later' });
    await host.host.start();
    await host.pass(10_000);
    const obligation = await host.workspace.own.journal.obligation(AgentName.parse('lead'), eventId);
    expect(obligation?.ended).toMatchObject({ as: 'responded' });
  });
});

describe('what agents say to a surface', () => {
  it('is shown there as a DM, a post, a mention, a reply in a thread, or a reaction [C2A-95]', async () => {
    const { host, wire, surface } = await aTown();
    const dm = await surface.dm('U1', 'lead', 'hello');
    await surface.post('U1', C1, '@lead and here?', { messageId: '77.1' });
    await host.pass(5000);
    await host.call(
      wire,
      'chat.send_message',
      said({ target: '@slack.U1', inReplyTo: dm.eventId, idempotencyKey: 'a' }),
    );
    await host.call(
      wire,
      'chat.send_message',
      said({
        target: '#C1',
        text: 'for all to know',
        visibility: 'channel',
        directedness: 'ambient',
        idempotencyKey: 'b',
      }),
    );
    await host.call(
      wire,
      'chat.send_message',
      said({ target: '#C1', text: 'yes, here', visibility: 'thread', inReplyTo: 'slack.77.1', idempotencyKey: 'c' }),
    );
    const mention = { target: '#C1', text: '@slack.U1 and you?', visibility: 'channel', idempotencyKey: 'd' };
    await host.call(wire, 'chat.send_message', said(mention));
    await host.call(wire, 'chat.react', { inReplyTo: 'slack.77.1', signal: 'done' });
    await host.pass(3000);
    expect(surface.wire.shown).toMatchObject([
      {
        what: 'message',
        conversation: { id: 'D-U1', kind: 'dm' },
        recipient: 'U1',
        visibility: 'dm',
        author: { id: 'lead' },
      },
      { what: 'message', conversation: { id: 'C1', kind: 'channel' }, visibility: 'channel', text: 'for all to know' },
      { what: 'message', conversation: { id: 'C1', kind: 'thread', threadId: '77.1' }, visibility: 'thread' },
      { what: 'message', conversation: { id: 'C1', kind: 'channel' }, visibility: 'channel', mentions: ['U1'] },
      { what: 'reaction', conversation: { id: 'C1' }, target: '77.1', signal: 'done' },
    ]);
  });

  it('is shown with the time that it names, where it is accepted for later [C2A-111d]', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the deploy done?', { messageId: '78.1' });
    await host.pass(5000);
    await host.call(wire, 'chat.react', { inReplyTo: eventId, signal: 'queued', eta: 'after lunch' });
    await host.pass(3000);
    expect(surface.wire.shown).toMatchObject([
      { what: 'reaction', target: '78.1', signal: 'queued', eta: 'after lunch' },
    ]);
  });

  it('names a person without calling them where it is meant for nobody [C2A-97]', async () => {
    const { host, wire, surface } = await aTown();
    await surface.post('U1', C1, '@lead hello');
    await host.pass(5000);
    const text = '@slack.U1 wrote the parser';
    const post = said({ target: '#C1', text, visibility: 'channel', directedness: 'ambient', idempotencyKey: 'a' });
    await host.call(wire, 'chat.send_message', post);
    await host.call(wire, 'chat.send_message', {
      ...post,
      text: `${text}, is it done?`,
      directedness: 'to_me',
      idempotencyKey: 'b',
    });
    expect(surface.wire.shown.map(({ mentions }) => mentions)).toEqual([[], ['U1']]);
  });

  it('is shown once, whatever passes on the way, always with the same words and key [C2A-144] [C2A-145] [C2A-146]', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'hello');
    await host.pass(5000);
    const troubles: object[] = [
      { code: -32018 },
      { code: -32016, retryAfterMs: 30_000 },
      {},
      { code: 503 },
      { code: 429 },
    ];
    surface.wire.showing = async () => {
      const trouble = troubles.shift();
      if (trouble) throw Object.assign(new Error('not now'), trouble);
    };
    const sent = await host.call(wire, 'chat.send_message', said({ target: '@slack.U1' }));
    expect(sent).toMatchObject({ shown: false });
    await host.pass(2000);
    expect(surface.wire.shown).toHaveLength(2);
    await host.pass(28_000);
    expect(surface.wire.shown).toHaveLength(2);
    await host.pass(60_000);
    expect(surface.wire.shown).toHaveLength(6);
    expect(new Set(surface.wire.shown.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(await host.call(wire, 'chat.send_message', said({ target: '@slack.U1' }))).toMatchObject({
      eventId: sent['eventId'],
      first: false,
      shown: true,
    });
    const other = host.call(wire, 'chat.send_message', said({ target: '@slack.U1', text: 'something else' }));
    await expect(other).rejects.toMatchObject({ code: 'key_conflict' });
    expect(surface.wire.shown).toHaveLength(6);
  });

  it('and what it refuses for good is told to the sender, has failed, and can be said in another way [C2A-143]', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'hello');
    await host.pass(5000);
    surface.wire.showing = () =>
      Promise.reject(Object.assign(new Error('you are not in this channel'), { code: -32001 }));
    const sending = host.call(wire, 'chat.send_message', said({ target: '@slack.U1' }));
    await expect(sending).rejects.toThrow('you are not in this channel');
    const [row] = await host.workspace.own.journal.history({ agent: AgentName.parse('slack.U1'), limit: 1 });
    expect(await host.ended('slack.U1', row?.message.id ?? '')).toBe('failed');
    expect(surface.wire.shown).toHaveLength(1);
    surface.wire.showing = async () => {};
    // Nobody has seen it: it can be sent again, with another text or the same.
    for (const text of ['hello', 'good morning']) {
      const again = said({ target: '@slack.U1', text, inReplyTo: eventId, idempotencyKey: text });
      expect(await host.call(wire, 'chat.send_message', again)).toMatchObject({ first: true, shown: true });
    }
  });

  it('and is not shown yet is the answer all the same: no turn says anything else for the event [C2A-143]', async () => {
    const { host, wire, surface } = await aTown();
    const { eventId } = await surface.dm('U1', 'lead', 'is the deploy blocked?');
    await host.pass(5000);
    surface.wire.showing = () => Promise.reject(new Error('not now'));
    const turn = (state: 'started' | 'ended' | 'failed', finalText?: string): Promise<void> =>
      host.host.turn(wire, { sessionId: 'lead', state, eventIds: [MessageId.parse(eventId)], finalText });
    await turn('started');
    await host.call(wire, 'chat.send_message', said({ target: '@slack.U1', text: 'No.', inReplyTo: eventId }));
    await turn('ended', 'I told them that it is not.');
    await turn('started');
    await turn('ended', 'As I said.');
    await turn('started');
    await turn('failed');
    await host.pass(60_000);
    expect(wire.ids).toEqual([MessageId.parse(eventId)]);
    surface.wire.showing = async () => {};
    await host.pass(120_000);
    expect(new Set(surface.wire.shown.map(({ text }) => text))).toEqual(new Set(['No.']));
    expect(await host.ended('lead', eventId)).toBe('responded');
  });

  it('waits for a disconnected surface, and is shown in order when it reconnects', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'hello');
    await host.pass(5000);
    host.host.gone(surface.wire);
    for (const n of [1, 2, 3]) {
      await host.call(
        wire,
        'chat.send_message',
        said({ target: '@slack.U1', text: `number ${n}`, idempotencyKey: `k${n}` }),
      );
    }
    const back = await new TestSurface(host).bind();
    await host.pass(2000);
    expect(back.wire.shown.map(({ text }) => text)).toEqual(['number 1', 'number 2', 'number 3']);
  });

  it('for a moment only is refused where that is not possible, and never shown to more [C2A-129]', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'hello');
    await host.pass(5000);
    const short = said({ target: '@slack.U1', visibility: 'ephemeral' });
    for (const target of ['@slack.U1', '@lead', '#C1'])
      await expect(host.call(wire, 'chat.send_message', { ...short, target })).rejects.toThrow('for a moment only');
    expect(surface.wire.shown).toEqual([]);
    const able = await new TestSurface(host).bind({ ephemeral: true });
    await host.call(wire, 'chat.send_message', short);
    expect(able.wire.shown).toMatchObject([{ visibility: 'ephemeral', recipient: 'U1' }]);
  });
});

it('every event that a harness gets has one of the four policies and the documented shape [C2A-2] [C2A-35]', async () => {
  const host = await aHost('lead', 'bob');
  const wire = new FakeWire();
  await host.bind(wire, 'lead', { deliver: 'all' });
  const surface = await new TestSurface(host).bind();
  await inChannel(host.workspace, '#C1', 'lead', 'bob');
  const intents = ['none', 'question', 'assignment', 'approval', 'blocker', 'fyi', 'status', 'thanks'];
  const texts = ['hello', 'thanks!', '@lead really?', '@bob yours', '@lead @bob both', 'ok', ''];
  for (let n = 0; n < 120; n += 1) {
    const conversation =
      n % 3 === 0 ? { id: 'D', kind: 'dm' } : n % 3 === 1 ? C1 : { ...C1, kind: 'thread', threadId: `t${n % 5}` };
    await surface.post(`U${n % 4}`, conversation, texts[n % texts.length] ?? '', {
      recipient: 'lead',
      intent: intents[n % intents.length],
      priority: n % 11 === 0 ? 'urgent' : 'normal',
    });
    if (n % 10 === 0) await host.pass(7000);
  }
  await host.pass(20 * 60_000);
  expect(wire.delivered.length).toBeGreaterThan(30);
  expect(new Set(wire.delivered.map(({ attention }) => attention.policy)).size).toBe(4);
  expect(wire.delivered.map(({ attention }) => attention.reason)).toContain('digest');
  for (const frame of wire.delivered) {
    expect(ChatDeliver.safeParse(frame)).toMatchObject({ success: true });
    expect(frame.attention.policy).toBeOneOf(['must_respond', 'may_respond', 'ack_only', 'must_not_respond']);
    if (frame.attention.policy === 'must_respond') expect(frame.attention.deadlineMs).toBeGreaterThan(0);
    expect(MessageId.safeParse(frame.eventId).success).toBe(true);
  }
});
