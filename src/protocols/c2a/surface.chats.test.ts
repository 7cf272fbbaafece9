import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { inChannel } from '../../../test/support/workspace.ts';
import { TestSurface } from '../../../test/support/surface.ts';
import { send } from '../../core/mail/send.ts';
import { Draft } from '../../core/message.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import { SURFACE } from './shapes.ts';

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

describe('two workspaces of one platform', () => {
  async function aCountry() {
    const { host, wire, surface } = await aTown();
    const other = await new TestSurface(host).bind({ workspaceId: 'T2' });
    return { host, wire, first: surface, other };
  }

  it('are connected at the same time, and the same ids in both are two people, two messages and two channels', async () => {
    const { host, wire, first, other } = await aCountry();
    for (const [surface, text] of [
      [first, 'from the first'],
      [other, 'from the other'],
    ] as const) {
      await surface.dm('U1', 'lead', text, { messageId: '7' });
      await surface.post('U1', { ...C1, private: true }, `${text}, in the channel`, { messageId: '8' });
    }
    await host.pass(5000);
    expect(wire.delivered).toMatchObject([
      { source: { platform: 'slack', workspaceId: 'T1' }, author: { id: 'slack.U1' }, eventId: 'slack.7' },
      { source: { platform: 'slack', workspaceId: 'T2' }, author: { id: 'slack-T2.U1' }, eventId: 'slack-T2.7' },
    ]);
    expect(await host.workspace.own.directory.channels()).toEqual(['#C1', '#slack-T2.C1'] as never);
  });

  it('each see only the messages to them, under the ids of the platform', async () => {
    const { host, wire, first, other } = await aCountry();
    await other.dm('U1', 'lead', 'hello', { messageId: '7' });
    await other.post('U1', C1, '@lead and here?', { messageId: '8' });
    await host.pass(5000);
    await host.call(wire, 'chat.send_message', said({ target: '@slack-T2.U1', inReplyTo: 'slack-T2.7' }));
    const inThread = { target: '#slack-T2.C1', visibility: 'thread', inReplyTo: 'slack-T2.8', idempotencyKey: 'b' };
    await host.call(wire, 'chat.send_message', said({ ...inThread, text: 'yes, here' }));
    await host.call(wire, 'chat.react', { inReplyTo: 'slack-T2.8', signal: 'done' });
    await host.pass(3000);
    expect(first.wire.shown).toEqual([]);
    expect(other.wire.shown).toMatchObject([
      { what: 'message', conversation: { kind: 'dm', threadId: '7' }, recipient: 'U1' },
      { what: 'message', conversation: { id: 'C1', kind: 'thread', threadId: '8' } },
      { what: 'reaction', conversation: { id: 'C1' }, target: '8' },
    ]);
  });

  it('keep their names, in whatever order they reconnect', async () => {
    const { host, first, other } = await aCountry();
    for (const surface of [first, other]) host.host.gone(surface.wire);
    const back = await new TestSurface(host).bind({ workspaceId: 'T2' });
    const third = await new TestSurface(host).bind({ workspaceId: 'acme.corp' });
    expect((await back.dm('U1', 'lead', 'hello', { messageId: '7' })).eventId as string).toBe('slack-T2.7');
    expect((await third.dm('U1', 'lead', 'hi', { messageId: '7' })).eventId as string).toBe('slack-acme_2ecorp.7');
  });

  it('have a connection each: one connection speaks for one workspace', async () => {
    const { surface } = await aTown();
    await expect(surface.bind({ workspaceId: 'T2' })).rejects.toMatchObject({ code: 'invalid_request' });
    await surface.bind();
  });
});

describe('where a platform numbers the messages of each conversation by itself', () => {
  const C2 = { id: 'C2', kind: 'channel' };

  it('the same number in two conversations is two messages, each with one id for ever', async () => {
    const { host, wire, surface } = await aTown();
    const posts = async () => [
      await surface.post('U1', C1, '@lead one', { messageId: '42' }),
      await surface.post('U1', C2, '@lead two', { messageId: '42' }),
      await surface.dm('U1', 'lead', 'three', { messageId: '42' }),
      await surface.dm('U2', 'lead', 'four', { messageId: '42' }),
    ];
    const first = await posts();
    const again = await posts();
    expect(new Set(first.map(({ eventId }) => eventId)).size).toBe(4);
    expect(again).toEqual(first.map((one) => ({ ...one, first: false })));
    await host.pass(10_000);
    expect(wire.texts.toSorted()).toEqual(['@lead one', '@lead two', 'four', 'three']);
  });

  it('edits, deletes, threads and reactions name the conversation, and apply to its message', async () => {
    const { host, wire, surface } = await aTown();
    const one = await surface.post('U1', C1, '@lead one', { messageId: '42' });
    const two = await surface.post('U1', C2, '@lead two', { messageId: '42' });
    const edited = await surface.edit('42', '@lead two, better', { conversation: 'C2' });
    const reply = await surface.post('U2', { ...C2, kind: 'thread', threadId: '42' }, 'I see', { messageId: '43' });
    expect((await host.workspace.own.journal.message(reply.eventId))?.thread).toBe(two.eventId);
    await surface.react('U2', '42', { conversation: 'C2', signal: 'x-party' });
    const reacted = (await host.workspace.own.journal.history({ limit: 1 }))[0]?.message;
    expect(reacted?.thread).toBe(edited.eventId);
    await surface.delete('42', undefined, 'C1');
    await host.pass(10_000);
    expect(wire.texts).toEqual(['@lead two, better']);
    expect(await host.ended('lead', one.eventId)).toBe('superseded');
    await host.call(wire, 'chat.react', { inReplyTo: edited.eventId, signal: 'seen' });
    expect(surface.wire.shown).toMatchObject([{ what: 'reaction', conversation: { id: 'C2' }, target: '42' }]);
  });

  it('a request that does not name the conversation is refused rather than guessed', async () => {
    const { surface } = await aTown();
    await surface.post('U1', C1, '@lead one', { messageId: '42' });
    await surface.post('U1', C2, '@lead two', { messageId: '42' });
    await expect(surface.edit('42', 'better')).rejects.toThrow('name the conversation');
    await expect(surface.delete('42')).rejects.toThrow('name the conversation');
    await expect(surface.react('U2', '42', { signal: 'seen' })).rejects.toThrow('name the conversation');
  });

  it('messages of an earlier version, which name no conversation, are found', async () => {
    const host = await aHost('lead');
    const { directory } = host.workspace.own;
    for (const name of ['slack._surface', 'slack.U1']) await directory.register(AgentName.parse(name), 'agent');
    const workspace = { ...host.workspace, newId: () => MessageId.parse('slack.7'), givenIds: true as const };
    const draft = Draft.parse({ to: '@lead', body: 'hello', key: 'surface/slack.7' });
    await send(workspace, AgentName.parse('slack.U1'), draft);
    const surface = await new TestSurface(host).bind({ workspaceId: 'T9' });
    const again = await surface.dm('U1', 'lead', 'hello', { messageId: '7' });
    expect(again).toEqual({ eventId: MessageId.parse('slack.7'), first: false });
    const other = await surface.dm('U2', 'lead', 'hi', { messageId: '7' });
    expect(other.first).toBe(true);
    const long = 'm'.repeat(120);
    expect(await surface.dm('U1', 'lead', 'long', { messageId: long })).toMatchObject({ first: true });
  });

  it('a reply or reaction that arrives before its message belongs to the conversation of that message', async () => {
    const { host, surface } = await aTown();
    const reply = await surface.post('U2', { ...C1, kind: 'thread', threadId: '42' }, 'I see', { messageId: '43' });
    const other = await surface.post('U1', C2, '@lead two', { messageId: '42' });
    const root = await surface.post('U1', C1, '@lead one', { messageId: '42' });
    expect((await host.workspace.own.journal.message(reply.eventId))?.thread).toBe(root.eventId);
    expect(other.eventId).not.toBe(root.eventId);
  });
});

describe('mentions that a surface hands over', () => {
  it('mention those whom they name and nobody else, whatever the text says', async () => {
    const { host, wire, surface } = await aTown('bob');
    await inChannel(host.workspace, '#C1', 'bob');
    await surface.post('U1', C1, '<@U0BOT> can you look? cc @bob', { mentions: ['lead'] });
    await surface.post('U1', C1, 'the decorator @lead is new', { mentions: [] });
    await host.pass(5000);
    expect(wire.delivered).toMatchObject([
      {
        target: { mentions: ['agent:lead'], directedness: 'to_me' },
        attention: { policy: 'must_respond', reason: 'direct_mention' },
      },
    ]);
    const [waiting] = await host.workspace.own.journal.waitingCopies(AgentName.parse('bob'), 0, 9);
    expect(waiting?.attention.directedness).toBe('to_other');
  });

  it('can name people of the platform and roles; unknown names mention nobody', async () => {
    const { host, wire, surface } = await aTown();
    await host.bind(wire, 'lead', { sessionId: 'two', roles: ['ops'] });
    await surface.post('U2', C1, 'hello');
    await surface.post('U1', C1, 'see this', { mentions: ['U2', 'U404', 'no name!', 'x'.repeat(500), 'ops'] });
    await host.pass(6000);
    expect(wire.delivered.at(-1)).toMatchObject({
      target: { mentions: ['human:slack.U2', 'role:ops'], directedness: 'to_my_role' },
    });
  });

  it('come with an edit as with a post', async () => {
    const { host, wire, surface } = await aTown();
    await inChannel(host.workspace, '#C1', 'lead');
    await surface.post('U1', C1, 'can somebody look?', { messageId: 'a', mentions: [] });
    await surface.edit('a', 'can <@U0BOT> look?', { mentions: ['lead'] });
    await host.pass(5000);
    expect(wire.delivered).toMatchObject([{ attention: { reason: 'direct_mention' } }]);
  });
});

describe('attachments', () => {
  const text = (words: string) => ({ type: 'text', text: words });
  const photo = {
    type: 'image',
    url: 'https://chat.example/f/1.png',
    name: 'the error',
    mimeType: 'image/png',
    size: 812,
  };

  it('of any kind are parts of the message, with their kind, name and size', async () => {
    const { host, wire, surface } = await aTown();
    const content = [
      text('look'),
      photo,
      { type: 'ref', ref: 'src/a.ts', label: 'the file' },
      { type: 'sticker', emoji: '🎉' },
      { type: 'file', ref: `data:text/plain;base64,${'A'.repeat(5000)}`, name: 'log.txt' },
    ];
    await surface.dm('U1', 'lead', '', { content });
    await host.pass(5000);
    expect(wire.delivered[0]?.content as unknown[]).toEqual([
      text('look'),
      { type: 'image', ref: photo.url, label: 'the error', mimeType: 'image/png', size: 812 },
      { type: 'ref', ref: 'src/a.ts', label: 'the file' },
      { type: 'sticker', ref: 'sticker' },
      { type: 'file', ref: 'data:text/plain;base64,… (5023 characters, not kept)', label: 'log.txt' },
    ]);
    expect(wire.prompts[0]).toContain('image "https://chat.example/f/1.png" (the error)');
  });

  it('alone are a message, and a knock tells their kinds', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', '', { content: [photo] });
    await host.pass(5000);
    expect(wire.delivered).toMatchObject([{ attention: { policy: 'must_respond' } }]);
    await host.bind(wire, 'lead', { sessionId: 'two', streams: ['#C1'] });
    await surface.post('U1', C1, '', { content: [text('what I see'), photo, photo] });
    await host.pass(6000);
    expect(wire.delivered.at(-1)?.knock).toMatchObject({ parts: { text: 1, image: 2 } });
  });

  it('are replaced by an edit, with the text or without it', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', '', { messageId: 'a', content: [text('look'), photo] });
    const other = { ...photo, url: 'https://chat.example/f/2.png' };
    await surface.edit('a', 'look', { content: [text('look'), other] });
    await surface.dm('U1', 'lead', '', { messageId: 'b', content: [text('and here'), photo] });
    await surface.edit('b', 'and here');
    await host.pass(10_000);
    const refs = wire.delivered.flatMap(({ content = [] }) => content.filter(({ type }) => type !== 'text'));
    expect(refs).toMatchObject([{ type: 'image', ref: other.url }]);
    expect(wire.texts.join('\n')).toContain('and here');
  });
});

describe('a reaction that the platform lacks', () => {
  async function asked(host: TestHost, surface: TestSurface) {
    const { eventId } = await surface.dm('U1', 'lead', 'is the lock free?', { messageId: '7' });
    await host.pass(5000);
    return eventId;
  }

  it.each([
    ['refuses it', { code: 400 }],
    ['says that it cannot now, each time', { code: -32603 }],
  ])('where it %s: counts all the same, and the refusal is noted', async (_what, no) => {
    const { host, wire, surface } = await aTown();
    const eventId = await asked(host, surface);
    surface.wire.showing = ({ what }) =>
      what === 'reaction' ? Promise.reject(Object.assign(new Error('REACTION_INVALID'), no)) : Promise.resolve();
    const reacted = await host.call(wire, 'chat.react', { inReplyTo: eventId, signal: 'done' });
    expect(reacted).toMatchObject({ disposition: 'responded', final: true });
    expect(await host.ended('lead', eventId)).toBe('responded');
    await host.pass(3_600_000);
    const copy = (await host.workspace.own.journal.trace(reacted['reactionId'] as never))?.copies[0];
    expect(copy).toMatchObject({ disposition: 'failed', settledBy: { reason: 'REACTION_INVALID' } });
    expect(surface.wire.shown.length).toBeLessThan(10);
  });

  it.each([
    ['does not answer', () => new Promise<void>(() => {})],
    ['says that it cannot now', () => Promise.reject(new Error('not now'))],
  ])('keeps back nothing that is said after it, where the surface %s', async (_what, answer) => {
    const { host, wire, surface } = await aTown();
    const eventId = await asked(host, surface);
    surface.wire.showing = ({ what }) => (what === 'reaction' ? answer() : Promise.resolve());
    await host.call(wire, 'chat.react', { inReplyTo: eventId, signal: 'working' });
    const saying = host.call(
      wire,
      'chat.send_message',
      said({ target: '@slack.U1', text: 'it is', inReplyTo: eventId }),
    );
    await host.pass(6000);
    expect(await saying).toMatchObject({ shown: true });
    expect(surface.wire.shown.map(({ what }) => what).slice(0, 2)).toEqual(['reaction', 'message']);
  });
});

describe('a DM', () => {
  it('is answered in the conversation in which it was written', async () => {
    const { host, wire, surface } = await aTown();
    const one = await surface.dm('U1', 'lead', 'hello', { conversation: { id: 'D1', kind: 'dm' } });
    const two = await surface.dm('U1', 'lead', 'and here?', { conversation: { id: 'D2', kind: 'dm' } });
    await host.pass(5000);
    await host.call(wire, 'chat.send_message', said({ target: '@slack.U1', inReplyTo: one.eventId }));
    await host.call(wire, 'chat.react', { inReplyTo: two.eventId, signal: 'seen' });
    await host.call(wire, 'chat.send_message', said({ target: '@slack.U1', text: 'by the way', idempotencyKey: 'b' }));
    await host.pass(3000);
    expect(surface.wire.shown.map(({ what, conversation }) => [what, conversation.id])).toEqual([
      ['message', 'D1'],
      ['reaction', 'D2'],
      ['message', 'D2'],
    ]);
  });

  it('in a thread of an agent’s message goes to that agent as an answer', async () => {
    const { host, wire, surface } = await aTown();
    await surface.dm('U1', 'lead', 'hello');
    await surface.post('U1', C1, '@lead hello');
    await host.pass(5000);
    const asked = await host.call(wire, 'chat.send_message', said({ target: '@slack.U1', text: 'which branch?' }));
    const open = { target: '#C1', text: 'who knows?', visibility: 'channel', idempotencyKey: 'b' };
    const opened = await host.call(wire, 'chat.send_message', said({ ...open, directedness: 'ambient' }));
    const answers = [
      await surface.dm('U1', 'lead', 'main', { conversation: { id: 'D-U1', kind: 'dm', threadId: asked['eventId'] } }),
      await surface.post('U2', { ...C1, kind: 'thread', threadId: opened['eventId'] }, 'I do'),
    ];
    await host.pass(6000);
    for (const [at, { eventId }] of answers.entries()) {
      const event = wire.delivered.find((one) => one.eventId === eventId);
      expect(event?.attention.reason).toBe('thread_reply');
      expect((await host.workspace.own.journal.message(eventId))?.thread).toBe(
        String([asked, opened][at]?.['eventId']),
      );
    }
  });

  it('has its id for each agent, and keeps it over a restart', async () => {
    const { host, surface } = await aTown('bob');
    await surface.dm('U1', 'lead', 'hello', { conversation: { id: 'D-lead', kind: 'dm' } });
    await surface.dm('U1', 'bob', 'hello', { conversation: { id: 'D-bob', kind: 'dm' } });
    host.host.gone(surface.wire);
    const next = new TestHost(host.workspace);
    const back = await new TestSurface(next).bind();
    await next.send('lead', '@slack.U1', 'the build is green');
    await next.send('bob', '@slack.U1', 'the tests are green');
    await next.pass(3000);
    const shown = back.wire.shown.map(({ conversation, author }) => [author.id, conversation.id]);
    expect(Object.fromEntries(shown)).toEqual({ lead: 'D-lead', bob: 'D-bob' });
  });
});

describe('a session that is bound with streams', () => {
  it('gets their messages from then on, and no more after it is bound without them', async () => {
    const host = await aHost('lead');
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead', { streams: ['#C1'] });
    const surface = await new TestSurface(host).bind();
    await surface.post('U1', C1, 'the deploy is red');
    await host.pass(6000);
    expect(wire.delivered).toMatchObject([
      {
        conversation: { id: '#C1', streamId: '#C1' },
        target: { directedness: 'to_my_role' },
        knock: { from: 'human:slack.U1' },
      },
    ]);
    await host.bind(wire, 'lead', { token });
    await surface.post('U1', C1, 'the deploy is green');
    await host.pass(6000);
    expect(wire.delivered).toHaveLength(1);
    const { events } = await host.call(wire, 'chat.list_events', { stream: '#C1' });
    expect(JSON.stringify(events)).not.toContain('green');
  });

  it('leaves a channel that its agent had joined by itself joined', async () => {
    const host = await aHost('lead');
    await inChannel(host.workspace, '#C1', 'lead');
    const wire = new FakeWire();
    const { token } = await host.bind(wire, 'lead', { streams: ['#C1'] });
    await host.bind(wire, 'lead', { token });
    const record = await host.workspace.own.directory.get(AgentName.parse('lead'));
    expect(record?.subscriptions).toEqual(['#C1']);
  });
});

it('a tool waits for a few posts at most, even if 1,800 are queued before it', async () => {
  const { workspace } = await aHost('lead');
  const host = new TestHost(workspace, { limits: { postsAtOnce: 2000 } });
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  const first = await new TestSurface(host).bind();
  const second = await new TestSurface(host).bind({ workspaceId: 'T2' });
  let stored = 0;
  const posts = Array.from({ length: 1800 }, async (_, at) => {
    const post = SURFACE['surface/post'].parse({
      messageId: `m${at}`,
      conversation: { id: `C${at % 7}`, kind: 'channel' },
      author: { id: `U${at % 50}`, kind: 'human' },
      content: [{ type: 'text', text: `word ${at}` }],
    });
    await host.host.surface.post((at % 2 === 0 ? first : second).wire, post);
    stored += 1;
  });
  const waited: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const before = stored;
    await host.host.call(wire, undefined, 'chat.list_events', { limit: 20 });
    waited.push(stored - before);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  expect(stored).toBeLessThan(posts.length);
  expect(Math.max(...waited)).toBeLessThan(20);
  await Promise.all(posts);
});
