import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, anOwner, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { TOOLS } from '../../protocols/c2a/shapes.ts';
import { MessageId } from '../names.ts';
import { claim, unclaim } from '../obligations/claim.ts';
import { defer } from '../obligations/defer.ts';
import { listEvents, readThread } from './events.ts';
import type { EventFilter } from './events.ts';
import { react } from '../obligations/react.ts';
import { say } from '../mail/say.ts';
import { send } from '../mail/send.ts';
import { why } from './why.ts';

const MINUTE = 60_000;

describe('the events of a reader', () => {
  it('are found by stream, conversation, policy and time, alone and together [C2A-119]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob');
    await inChannel(workspace, '#ops', 'bob');
    const said = async (from: typeof alice, fields: Record<string, unknown>) => {
      workspace.pass(MINUTE);
      return (await send(workspace, from, aDraft(fields))).message.id;
    };
    const dm = await said(alice, {});
    const dev = await said(alice, { to: '#dev', body: 'x' });
    const named = await said(carol, { to: '#dev', body: '@bob y' });
    const ops = await said(carol, { to: '#ops', body: 'z' });
    const found = async (filter: Partial<EventFilter>) => {
      const { events } = await listEvents([workspace.who('bob')], { limit: 20, now: workspace.now(), ...filter });
      return events.map(({ id }) => id);
    };
    expect(await found({})).toEqual([ops, named, dev, dm]);
    expect(await found({ stream: '#dev' })).toEqual([named, dev]);
    expect(await found({ stream: '#elsewhere' })).toEqual([]);
    expect(await found({ conversation: 'dm:alice,bob' })).toEqual([dm]);
    expect(await found({ policy: 'must_respond' })).toEqual([named, dm]);
    const since = new Date(workspace.now() - 2.5 * MINUTE).toISOString();
    const until = new Date(workspace.now() - 0.5 * MINUTE).toISOString();
    expect(await found({ since, until })).toEqual([named, dev]);
    expect(await found({ since, until, stream: '#dev', policy: 'must_respond' })).toEqual([named]);
  });

  it('come page by page, each once, whatever arrives meanwhile [C2A-119]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const ids: MessageId[] = [];
    for (let n = 0; n < 120; n += 1)
      ids.push((await send(workspace, alice, aDraft({ body: `number ${n}` }))).message.id);
    const seen: MessageId[] = [];
    let cursor: string | undefined;
    do {
      const page = await listEvents([workspace.who('bob')], { limit: 7, cursor, now: workspace.now() });
      seen.push(...page.events.map(({ id }) => id));
      cursor = page.cursor ?? undefined;
      await send(workspace, alice, aDraft({ body: 'one more' }));
    } while (cursor && seen.length < 2 * ids.length);
    expect(seen).toEqual(ids.reverse());
  });

  it('are those of all its mailboxes, and no other session’s', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const one = await send(workspace, alice, aDraft());
    const other = await send(workspace, alice, aDraft({ to: '@carol' }));
    const both = await listEvents([workspace.who('bob'), workspace.who('carol')], { limit: 9, now: workspace.now() });
    expect(both.events.map(({ id, mailbox }) => [id, mailbox])).toEqual([
      [other.message.id, carol],
      [one.message.id, bob],
    ]);
    const mine = await listEvents([workspace.who('carol')], { limit: 9, now: workspace.now() });
    expect(mine.events.map(({ id }) => id)).toEqual([other.message.id]);
  });

  it('do not hold what is kept in silence, nor the reader’s own words', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await send(workspace, alice, aDraft({ body: 'thanks!' }));
    await send(workspace, bob, aDraft({ to: '@alice' }));
    expect((await listEvents([workspace.who('bob')], { limit: 9, now: workspace.now() })).events).toEqual([]);
  });

  it('are not changed by being listed or read: policy and disposition stay [C2A-61]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await inChannel(workspace, '#dev', 'bob');
    const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
    for (let n = 0; n < 3; n += 1) {
      const [event] = (await listEvents([workspace.who('bob')], { limit: 9, now: workspace.now() })).events;
      expect(event).toMatchObject({ attention: { policy: 'must_not_respond' }, disposition: null, proven: 'stored' });
      await readThread([workspace.who('bob')], { event: message.id }, { limit: 9, now: workspace.now() });
    }
    expect(await workspace.own.mailboxes.ids(bob)).toHaveLength(1);
  });

  it('say what is known of them: disposition, claim, step and attempt', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await claim(workspace, workspace.who('bob'), message.id);
    await defer(workspace, workspace.who('bob'), message.id, { reason: 'later' });
    const [event] = (await listEvents([workspace.who('bob')], { limit: 9, now: workspace.now() })).events;
    expect(event).toMatchObject({
      conversation: { id: 'dm:alice,bob', kind: 'dm' },
      disposition: 'deferred',
      claim: { holder: 'bob' },
      proven: 'stored',
      attempt: 1,
    });
  });
});

describe('a thread', () => {
  it('is read by window and cursor, oldest first, with a count of what stands before [C2A-120]', async () => {
    const { workspace, ids } = await aThread(30);
    await workspace.own.directory.register(carol, 'agent');
    await send(workspace, carol, aDraft({ body: 'something else' }));
    const [last = ids[0]] = ids.slice(-1);
    const page = await readThread([workspace.who('bob')], { event: last }, { limit: 10, now: workspace.now() });
    expect(page.messages.map(({ id }) => id)).toEqual(ids.slice(20));
    expect(page.earlier).toBe(20);
    const before = await readThread(
      [workspace.who('bob')],
      { event: last },
      { limit: 15, cursor: page.cursor ?? undefined },
    );
    expect(before.messages.map(({ id }) => id)).toEqual(ids.slice(5, 20));
    expect(before.earlier).toBe(5);
    const window = await readThread([workspace.who('bob')], { conversation: 'dm:alice,bob' }, { limit: 3 });
    expect(window.messages.map(({ id }) => id)).toEqual(ids.slice(27));
  });

  it('shows a reaction as its word', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await react(workspace, workspace.who('bob'), message.id, { signal: 'working' });
    const { messages } = await readThread([workspace.who('alice')], { event: message.id }, { limit: 9 });
    expect(messages.map(({ signal, body }) => signal ?? body)).toEqual(['hello', 'working']);
  });

  it('shows a reader only what it may see of it', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol', 'alice');
    const root = await send(workspace, alice, aDraft({ to: '#dev', body: 'in public' }));
    await send(workspace, bob, aDraft({ to: '@alice', thread: root.message.id, body: 'in private' }));
    const read = async (name: string) =>
      (await readThread([workspace.who(name)], { event: root.message.id }, { limit: 9 })).messages.map(
        ({ body }) => body,
      );
    expect(await read('carol')).toEqual(['in public']);
    expect(await read('alice')).toEqual(['in public', 'in private']);
  });
});

it('shows nothing of what a reader may not see, not even that it exists [C2A-167]', async () => {
  const workspace = await aWorkspace('alice', 'bob', 'carol');
  await inChannel(workspace, '#secret', 'bob');
  const hidden = (await send(workspace, alice, aDraft({ to: '#secret', body: 'the plan' }))).message.id;
  const whos = [workspace.who('carol')];
  const nowhere = MessageId.parse(crypto.randomUUID());
  const told = async (act: (id: string) => Promise<unknown>, id: string): Promise<string> =>
    act(id).then(
      (answer) => JSON.stringify(answer),
      (error: Error) => `${error.name} ${error.message}`.replaceAll(id, 'ID'),
    );
  const acts: ((id: string) => Promise<unknown>)[] = [
    async (id) => readThread(whos, { event: id }, { limit: 9 }),
    async (id) => readThread(whos, { conversation: id }, { limit: 9 }),
    async (id) => listEvents(whos, { conversation: id, limit: 9 }),
    async (id) => claim(workspace, workspace.who('carol'), id as MessageId),
    async (id) => defer(workspace, workspace.who('carol'), id as MessageId, { reason: 'x' }),
  ];
  for (const act of acts) expect(await told(act, hidden)).toBe(await told(act, nowhere));
  const stream = (name: string) => async () => listEvents(whos, { stream: name, limit: 9 });
  expect(await told(stream('#secret'), '')).toBe(await told(stream('#nothing'), ''));
  expect(await told(async (id) => readThread(whos, { conversation: id }, { limit: 9 }), '#secret')).toBe(
    await told(async (id) => readThread(whos, { conversation: id }, { limit: 9 }), '#nothing'),
  );
});

it('lets anyone who listens to a channel read what was said there before it came', async () => {
  const workspace = await aWorkspace('alice', 'bob', 'carol');
  await inChannel(workspace, '#dev', 'bob');
  const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
  await inChannel(workspace, '#dev', 'carol');
  const { events } = await listEvents([workspace.who('carol')], { stream: '#dev', limit: 9 });
  expect(events).toMatchObject([{ id: message.id, mailbox: null, attention: { policy: 'must_not_respond' } }]);
});

it('answers who, what, when and why for any event [C2A-170]', async () => {
  const workspace = await aWorkspace('alice', 'bob', 'carol');
  await withRole(workspace, 'backend', 'bob', 'carol');
  const { message, copies } = await send(workspace, alice, aDraft({ to: '@backend' }));
  const chosen = copies.find(({ attention }) => attention.injection === 'notify')?.mailbox ?? bob;
  workspace.pass(1000);
  await claim(workspace, workspace.who(chosen), message.id);
  workspace.pass(1000);
  const args = { target: '@alice', text: 'me too', inReplyTo: message.id, idempotencyKey: 'k' };
  const reply = TOOLS['chat.send_message'].parse({ ...args, visibility: 'dm', directedness: 'to_me' });
  const other = chosen === bob ? carol : bob;
  await expect(say(workspace, workspace.who(other), reply)).rejects.toThrow(`@${chosen}`);
  workspace.pass(1000);
  await react(workspace, workspace.who(chosen), message.id, { signal: 'done' });
  const lines = await why(workspace.own, message.id);
  const said = lines.map(({ who, what, why: because }) => `${who} ${what} ${because}`);
  expect(said[0]).toBe('alice sent to @backend ');
  expect(said.join('\n')).toMatch(/parley decided for @\w+: may_respond \(to_my_role, \w+\) role_mention/);
  expect(said.join('\n')).toContain(`${chosen} claimed`);
  expect(said.join('\n')).toMatch(new RegExp(`${other} refused .*already_claimed`));
  expect(said.join('\n')).toContain(`${chosen} reacted: done`);
  expect(said.join('\n')).toMatch(new RegExp(`${chosen} settled: responded signal done`));
  expect(said.join('\n')).toMatch(new RegExp(`${chosen} owed answer ended: responded`));
  expect(lines.every(({ at }) => !Number.isNaN(Date.parse(at)))).toBe(true);
  expect(lines.map(({ at }) => at)).toEqual(lines.map(({ at }) => at).toSorted());
  expect(JSON.stringify(lines)).not.toContain(message.body);
});

it('says who put an event off, gave its claim up, and that its deadline passed [C2A-170]', async () => {
  const workspace = await aWorkspace('alice', 'bob');
  await anOwner(workspace);
  const { message } = await send(workspace, alice, aDraft());
  await defer(workspace, workspace.who('bob'), message.id, { reason: 'after the deploy' });
  await claim(workspace, workspace.who('bob'), message.id);
  await unclaim(workspace, workspace.who('bob'), message.id);
  await workspace.live(60 * 60_000);
  const said = (await why(workspace.own, message.id)).map((line) => `${line.who} ${line.what} ${line.why}`).join('\n');
  expect(said).toMatch(/^bob deferred reason after the deploy, until /m);
  expect(said).toContain('bob released claim given up');
  expect(said).toContain('bob reconsidered policy may_respond, because its deadline has passed');
});

async function aThread(length: number): Promise<{ workspace: TestWorkspace; ids: MessageId[] }> {
  const workspace = await aWorkspace('alice', 'bob');
  const ids: MessageId[] = [];
  for (let n = 0; n < length; n += 1) {
    const fields = { body: `fact ${n * 7}.${n}`, ...(n > 0 && { thread: ids.at(-1) }) };
    const from = n % 2 ? bob : alice;
    ids.push((await send(workspace, from, aDraft({ to: n % 2 ? '@alice' : '@bob', ...fields }))).message.id);
    workspace.pass(1000);
  }
  return { workspace, ids };
}
