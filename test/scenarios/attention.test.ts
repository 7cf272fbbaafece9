import { describe, expect, it } from 'bun:test';
import { AgentName, MessageId } from '../../src/core/names.ts';
import { Quieter } from '../../src/protocols/c2a/shapes.ts';
import { answer } from '../../src/core/mail/send.ts';
import { remove } from '../../src/protocols/c2a/edit.ts';
import { resolve } from '../../src/core/obligations/defer.ts';
import { aDraft } from '../support/durable-workspace.ts';
import { aHost, FakeWire } from '../support/host.ts';
import type { TestHost } from '../support/host.ts';
import { anOwner, inChannel, withRole } from '../support/workspace.ts';
import { TestSurface } from '../support/surface.ts';

/** Sessions of these agents, all in one channel; each gets everything that its mailbox gets. */
async function sessionsOf(...names: string[]) {
  const host = await aHost(...names);
  await host.host.start();
  await inChannel(host.workspace, '#c', ...names);
  const wires: Record<string, FakeWire> = {};
  for (const name of names) {
    const wire = new FakeWire();
    await host.bind(wire, name, { deliver: 'all' });
    wires[name] = wire;
  }
  return { host, wire: (name: string): FakeWire => wires[name] ?? new FakeWire() };
}

const said = (text: string, fields: object = {}): object => ({
  target: '#c',
  text,
  idempotencyKey: text,
  visibility: 'channel',
  directedness: 'ambient',
  ...fields,
});

const seenIn = (wire: FakeWire, eventId: unknown): object[] =>
  wire.delivered
    .filter((one) => one.eventId === eventId)
    .map(({ target, attention, injection }) => ({
      directedness: target.directedness,
      policy: attention.policy,
      mode: injection.mode,
    }));

describe('what one agent says', () => {
  it('to a role knocks at one of it as to_my_role and may_respond, who answers after a claim [C2A-96b]', async () => {
    const { host, wire } = await sessionsOf('ann', 'bob');
    await withRole(host.workspace, 'backend', 'bob');
    const text = '@backend the rollback is stuck';
    const { eventId } = await host.call(wire('ann'), 'chat.send_message', said(text, { directedness: 'to_my_role' }));
    await host.pass(10_000);
    expect(seenIn(wire('bob'), eventId)).toEqual([
      { directedness: 'to_my_role', policy: 'may_respond', mode: 'notify' },
    ]);
    await host.call(wire('bob'), 'chat.claim', { eventId, release: true });
    const reply = said('it runs again', { inReplyTo: eventId, visibility: 'thread' });
    await expect(host.call(wire('bob'), 'chat.send_message', reply)).rejects.toMatchObject({ code: 'against_policy' });
    await host.call(wire('bob'), 'chat.claim', { eventId });
    await host.call(wire('bob'), 'chat.send_message', reply);
    await host.pass(10_000);
    expect(await host.ended('bob', String(eventId))).toBe('responded');
  });

  it('in a channel without a name is ambient and must_not_respond for the others, and before no model [C2A-96d]', async () => {
    const { host, wire } = await sessionsOf('ann', 'bob', 'cy');
    const { eventId } = await host.call(wire('ann'), 'chat.send_message', said('the cache is warm now'));
    await host.pass(60_000);
    for (const name of ['bob', 'cy']) {
      expect(seenIn(wire(name), eventId)).toEqual([
        { directedness: 'ambient', policy: 'must_not_respond', mode: 'tool_mailbox' },
      ]);
      expect(wire(name).prompts).toEqual([]);
    }
  });

  it('is seen by its reader as it was meant, and by everybody else as not theirs [C2A-103]', async () => {
    const { host, wire } = await sessionsOf('ann', 'bob', 'cy');
    await withRole(host.workspace, 'backend', 'bob');
    const directedness = async (text: string, fields: object): Promise<unknown[]> => {
      const { eventId } = await host.call(wire('ann'), 'chat.send_message', said(text, fields));
      await host.pass(20_000);
      return ['bob', 'cy'].map(
        (name) => wire(name).delivered.find((one) => one.eventId === eventId)?.target.directedness,
      );
    };
    const dm = { target: '@bob', visibility: 'dm', directedness: 'to_me' };
    expect(await directedness('run the tests', dm)).toEqual(['to_me', undefined]);
    expect(await directedness('@bob run them', { directedness: 'to_me' })).toEqual(['to_me', 'to_other']);
    expect(await directedness('@backend who can?', { directedness: 'to_my_role' })).toEqual(['to_my_role', 'to_other']);
    expect(await directedness('they ran', {})).toEqual(['ambient', 'ambient']);
    expect(await directedness('as @bob said, they ran', {})).toEqual(['ambient', 'ambient']);
  });

  it('of its progress is no chat: nothing is posted, nobody is asked, and a surface shows it as progress [C2A-101]', async () => {
    const host = await aHost('ann', 'bob');
    await host.host.start();
    const surface = await new TestSurface(host).bind();
    const [ann, bob] = [new FakeWire(), new FakeWire()];
    await surface.post('U1', { id: 'C1', kind: 'channel' }, '@ann @bob hello', { intent: 'fyi' });
    await host.bind(ann, 'ann', { streams: ['#C1'] });
    await host.bind(bob, 'bob', { deliver: 'all' });
    await host.pass(10_000);
    const [posts, shown, before] = [
      await host.workspace.own.journal.history({ limit: 50 }),
      surface.wire.shown.length,
      bob.delivered.length,
    ];
    host.host.progress(ann, { progressToken: 'deploy', progress: 2, total: 5, message: 'checked the build' });
    await host.pass(20 * 60_000);
    expect(await host.workspace.own.journal.history({ limit: 50 })).toHaveLength(posts.length);
    expect(surface.wire.shown.slice(shown).map(({ what }) => what)).toEqual(['progress']);
    const since = bob.delivered.slice(before);
    expect(new Set(since.map(({ attention }) => attention.policy))).toEqual(new Set(['must_not_respond']));
    expect(since.map(({ injection }) => injection.mode)).toEqual(['digest']);
  });
});

/** What becomes of an event of this kind when its reader does this, or nothing. */
async function endOf(
  send: object,
  text: string,
  act: (host: TestHost, wire: FakeWire, id: string) => Promise<unknown>,
) {
  const host = await aHost('ann', 'bob');
  await host.host.start();
  await anOwner(host.workspace, 'olga');
  const wire = new FakeWire();
  await host.bind(wire, 'bob', { deliver: 'all' });
  const { message, copies } = await host.send('ann', '@bob', text, send);
  await host.pass(6000);
  await act(host, wire, message.id);
  await host.pass(3_600_000);
  return { policy: copies[0]?.attention.policy, ended: await host.ended('bob', message.id) };
}

const SIGNALS = ['seen', 'agree', 'working', 'queued', 'claimed', 'done', 'declined', 'blocked', 'unclear'] as const;
const reacting = (signal: string) => (host: TestHost, wire: FakeWire, inReplyTo: string) =>
  host.call(wire, 'chat.react', { inReplyTo, signal });
const ACTS: Record<string, Parameters<typeof endOf>[2]> = {
  nothing: async () => {},
  'a short reply': (host, wire, inReplyTo) =>
    host.call(wire, 'chat.send_message', {
      target: '@ann',
      text: 'you are welcome',
      inReplyTo,
      idempotencyKey: 'k',
      visibility: 'dm',
      directedness: 'to_me',
    }),
  'a reply by command': (host, _wire, id) =>
    answer(
      host.workspace,
      host.workspace.who('bob'),
      host.workspace.own,
      MessageId.parse(id),
      aDraft({ body: 'you are welcome' }),
    ),
  'the end of the exchange': (host, _wire, id) =>
    resolve(host.workspace, host.workspace.who('bob'), MessageId.parse(id)),
  ...Object.fromEntries(SIGNALS.map((signal) => [signal, reacting(signal)])),
};

describe('an event', () => {
  it.each(Object.keys(ACTS))(
    'that asks for a receipt only ends acknowledged or ignored, after %s [C2A-106]',
    async (act) => {
      const { policy, ended } = await endOf({}, 'thanks!', ACTS[act] ?? (async () => {}));
      expect(policy).toBe('ack_only');
      expect(ended).toBe(['nothing', 'declined', 'unclear'].includes(act) ? 'ignored' : 'acknowledged');
    },
  );

  it.each(Object.keys(ACTS))(
    'that must be answered ends responded, acknowledged, superseded or failed, and ignored only if declined, after %s [C2A-107]',
    async (act) => {
      const { policy, ended } = await endOf({}, 'could you check the deploy?', ACTS[act] ?? (async () => {}));
      expect(policy).toBe('must_respond');
      const answers = ['a short reply', 'a reply by command', 'the end of the exchange', 'done'];
      expect(ended).toBe(act === 'declined' ? 'ignored' : answers.includes(act) ? 'responded' : 'failed');
    },
  );

  it('that must be answered ends acknowledged where a nod is asked for, and superseded if it is taken back [C2A-107]', async () => {
    const approval = await endOf({ intent: 'approval' }, 'may I deploy?', reacting('agree'));
    expect(approval).toEqual({ policy: 'must_respond', ended: 'acknowledged' });
    const back = await endOf({}, 'could you check the deploy?', (host, _wire, id) =>
      remove(host.workspace, AgentName.parse('ann'), host.workspace.own, MessageId.parse(id)),
    );
    expect(back).toEqual({ policy: 'must_respond', ended: 'superseded' });
  });

  it('that was declined is ignored, and its claim is free for another [C2A-111g]', async () => {
    const { host, wire } = await sessionsOf('ann', 'bob', 'cy');
    await withRole(host.workspace, 'backend', 'bob', 'cy');
    for (const text of ['@backend the rollback is stuck', 'who can look at the logs?']) {
      const { message } = await host.send('ann', '#c', text);
      await host.pass(10_000);
      const [inReplyTo, holder] = [message.id, host.workspace.own.journal];
      const first = (await holder.eventClaim(message.id, host.workspace.now()))?.holder ?? 'bob';
      await host.call(wire(first), 'chat.react', { inReplyTo, signal: 'claimed' });
      const other = first === 'bob' ? 'cy' : 'bob';
      await expect(host.call(wire(other), 'chat.claim', { eventId: message.id })).rejects.toMatchObject({
        code: 'already_claimed',
      });
      await host.call(wire(first), 'chat.react', { inReplyTo, signal: 'declined' });
      expect(await host.ended(first, message.id)).toBe('ignored');
      expect((await holder.eventClaim(message.id, host.workspace.now()))?.holder).not.toBe(AgentName.parse(first));
      await host.call(wire(other), 'chat.claim', { eventId: message.id });
    }
  });
});

describe('a reaction to what an agent said', () => {
  it.each([
    ['agree', 'proceed'],
    ['declined', 'revise'],
    ['done', 'already_handled'],
    ['seen', undefined],
  ])('of %s is an event of its own that means: %s [C2A-114]', async (signal, means) => {
    const host = await aHost('lead');
    const wire = new FakeWire();
    await host.bind(wire, 'lead', { deliver: 'all' });
    const surface = await new TestSurface(host).bind();
    await surface.dm('U1', 'lead', 'what do you propose?');
    await host.pass(5000);
    const proposal = said('I propose to wait.', { target: '@slack.U1', visibility: 'dm', directedness: 'to_me' });
    const { eventId: target } = await host.call(wire, 'chat.send_message', proposal);
    await surface.react('U1', String(target), { signal });
    await host.pass(10_000);
    const reaction = { target: MessageId.parse(String(target)), signal, ...(means !== undefined && { means }) };
    expect(wire.delivered.at(-1)?.reaction).toMatchObject(reaction);
    const { events } = await host.call(wire, 'chat.list_events', {});
    expect((events as { means?: string }[])[0]?.means).toBe(means);
  });
});

describe('a lead', () => {
  it('gets what is sent to it, and of 200 messages among its workers nothing but one digest [C2A-135]', async () => {
    const workers = ['w1', 'w2', 'w3'];
    const host = await aHost('lead', ...workers);
    await host.host.start();
    await withRole(host.workspace, 'lead', 'lead');
    await inChannel(host.workspace, '#work', 'lead', ...workers);
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const root = await host.send('w1', '#work', 'the parser is mine', { intent: 'status' });
    for (let n = 0; n < 200; n += 1) {
      const [from, to] = [workers[n % 3] ?? '', workers[(n + 1) % 3] ?? ''];
      const status = { intent: n % 2 === 0 ? 'status' : 'fyi' };
      const body = n % 2 === 0 ? `step ${n} of the marmalade is done` : `@${to} the marmalade has ${n} parts`;
      await host.send(from, '#work', body, { thread: root.message.id, ...status });
    }
    const { message } = await host.send('w2', '@lead', 'the parser is done, may I go on?');
    await host.pass(10_000);
    expect(wire.texts).toEqual(['the parser is done, may I go on?']);
    await host.pass(14 * 60_000 - 10_000);
    expect(wire.prompts.join('\n')).not.toContain('marmalade');
    expect(wire.delivered.filter(({ eventId }) => eventId !== message.id)).toEqual([]);
    await host.pass(60 * 60_000);
    expect(wire.prompts.join('\n')).not.toContain('marmalade');
    const rest = wire.delivered.filter(({ eventId }) => eventId !== message.id);
    expect(rest.map(({ injection }) => injection.mode)).toEqual(['digest']);
  });
});

describe('a harness', () => {
  it('may ask for less of an event and say why, never for more; what is owed stays owed, and silence is always possible [C2A-D2]', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const { journal } = host.workspace.own;
    const lead = AgentName.parse('lead');
    const quieter = (fields: object) => host.host.quieter(wire, Quieter.parse(fields));
    const { message } = await host.send('bob', '@lead', 'please look at the zebra');
    await host.pass(1000);
    const { id: eventId } = message;
    await expect(quieter({ eventId, mode: 'immediate', reason: 'busy' })).rejects.toMatchObject({
      code: 'against_policy',
    });
    await quieter({ eventId, mode: 'notify', reason: 'busy', policy: 'must_not_respond' });
    await host.pass(10_000);
    expect(seenIn(wire, eventId).at(-1)).toEqual({ directedness: 'to_me', policy: 'must_respond', mode: 'notify' });
    await expect(quieter({ eventId, mode: 'buffered', reason: 'busy' })).rejects.toMatchObject({ name: 'Refusal' });
    await quieter({ eventId, mode: 'silent', reason: 'safety' });
    const before = wire.delivered.length;
    await host.pass(60_000);
    expect(wire.delivered).toHaveLength(before);
    await host.host.start();
    await host.pass(1000);
    expect((await journal.obligation(lead, eventId))?.ended).toBeNull();
    const kept = (await journal.trace(eventId))?.copies[0]?.receipts.filter(({ step }) => step === 'reconsidered');
    expect(kept?.map(({ evidence }) => [evidence['was'], evidence['injection'], evidence['because']])).toEqual([
      ['buffered', 'notify', 'busy'],
      ['notify', 'silent', 'safety'],
    ]);
    expect(() => Quieter.parse({ eventId, mode: 'silent' })).toThrow();
    await expect(quieter({ eventId: 'of-others', mode: 'silent', reason: 'busy' })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('gets a digest of its own, by stream, at a boundary, at most every quarter of an hour, and none that is empty [C2A-D9]', async () => {
    const host = await aHost('ann', 'bob', 'ci');
    await inChannel(host.workspace, '#build', 'ann', 'bob', 'ci');
    await inChannel(host.workspace, '#deploy', 'ann', 'ci');
    const [ann, bob] = [new FakeWire(), new FakeWire()];
    await host.bind(ann, 'ann');
    await host.bind(bob, 'bob');
    const turn = (state: 'started' | 'boundary' | 'ended') =>
      host.host.turn(ann, { sessionId: 'ann', state, eventIds: [] });
    const status = async (to: string) => host.send('ci', to, 'done', { intent: 'status' });
    await host.pass(20 * 60_000);
    expect([...ann.delivered, ...bob.delivered]).toEqual([]);
    await turn('started');
    for (const to of ['#build', '#build', '#deploy']) await status(to);
    await host.pass(16 * 60_000);
    expect(ann.delivered).toEqual([]);
    expect(bob.prompts).toHaveLength(1);
    expect(bob.prompts[0]).toMatch(/#build: 2 messages/);
    expect(bob.prompts[0]).not.toContain('#deploy');
    await turn('boundary');
    await host.pass(1000);
    expect(ann.prompts).toHaveLength(1);
    expect(ann.prompts[0]).toMatch(/#build: 2 messages.*\n.*#deploy: 1 message\b/);
    await status('#build');
    await turn('boundary');
    await host.pass(14 * 60_000);
    await turn('boundary');
    await host.pass(1000);
    expect(ann.prompts).toHaveLength(1);
    await turn('ended');
    await host.pass(60_000);
    expect(ann.prompts).toHaveLength(2);
    await host.pass(60 * 60_000);
    expect(ann.prompts).toHaveLength(2);
  });

  it.each([
    ['a few words', ['when someone types'], 2500],
    ['what looks unfinished', ['here is the log:'], 4000],
    ['what ends in a comma', ['first of all,'], 4000],
    ['what ends in dots', ['let me think...'], 4000],
    ['an open code fence', ['see\n```ts\nconst a = 1;'], 4000],
    ['a long text that looks finished', ['Can you check whether the deploy is blocked by the migration?'], 2000],
    ['a long statement', ['The deploy is blocked by the migration of the old tables.'], 2000],
    ['a long call', ['The deploy is blocked by the migration of the old tables!'], 2000],
    ['a short question', ['is it done?'], 2500],
    ['two pieces, while more is typed', ['first', 'second'], 30_000],
    ['pieces without an end', Array.from({ length: 20 }, (_, n) => `and ${n}`), 30_000],
  ])('gets %s of a person after their time: %j, %i ms [C2A-D3]', async (_what, pieces, ms) => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const surface = await new TestSurface(host).bind();
    const began = host.workspace.now();
    for (const [n, piece] of pieces.entries()) {
      await surface.dm('U1', 'lead', piece);
      if (n < pieces.length - 1) await host.pass(1500);
    }
    const spent = host.workspace.now() - began;
    // More is to come.
    if (pieces.length > 1) host.host.surface.typing(surface.wire, { conversation: 'D1', author: 'U1', on: true });
    await host.pass(ms - spent - 1);
    expect(wire.delivered).toEqual([]);
    await host.pass(1);
    expect(wire.texts).toEqual([pieces.join('\n')]);
  });

  it('gets what an agent says within 250 ms as one, and no later [C2A-D3]', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    await host.send('bob', '@lead', 'one');
    await host.pass(200);
    await host.send('bob', '@lead', 'two');
    await host.pass(49);
    expect(wire.delivered).toEqual([]);
    await host.pass(1);
    await host.send('bob', '@lead', 'three');
    await host.pass(250);
    expect(wire.texts).toEqual(['one\ntwo', 'three']);
  });
});
