import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import { anOwner, inChannel, withRole } from '../../../test/support/workspace.ts';
import { AgentName, MessageId } from '../../core/names.ts';
import { remove } from './edit.ts';
import { react } from '../../core/obligations/react.ts';

async function aDay(...names: string[]) {
  const host = await aHost('lead', 'bob', ...names);
  await host.host.start();
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  return { host, wire };
}

describe('time', () => {
  it('brings what must be answered back to the same harness, twice, and then tells one other [C2A-153] [C2A-154]', async () => {
    const { host, wire } = await aDay('carol');
    await anOwner(host.workspace, 'olga');
    const carol = new FakeWire();
    await host.bind(carol, 'carol');
    const { message } = await host.send('bob', '@lead', 'please look at the build');
    await host.pass(99_000);
    expect(wire.ids).toEqual([message.id]);
    await host.pass(210_000);
    expect(
      wire.delivered.map(({ eventId, injection, reliability }) => [eventId, injection.mode, reliability.attempt]),
    ).toEqual([
      [message.id, 'buffered', 1],
      [message.id, 'notify', 2],
      [message.id, 'notify', 3],
    ]);
    expect(wire.delivered.map(({ returns }) => returns)).toEqual([undefined, 1, 2]);
    expect(new Set(wire.delivered.map(({ reliability }) => reliability.idempotencyKey)).size).toBe(1);
    expect(carol.delivered).toEqual([]);
    const told = await host.workspace.own.journal.history({ agent: AgentName.parse('olga'), limit: 10 });
    expect(told).toHaveLength(1);
    await host.pass(600_000);
    expect(await host.ended('lead', message.id)).toBe('failed');
  });

  it('ends in silence what may be answered and was not, without asking again [C2A-94]', async () => {
    const { host, wire } = await aDay();
    await anOwner(host.workspace, 'olga');
    const { message } = await host.send('bob', '@lead', 'the build is green again', { intent: 'fyi' });
    await host.pass(290_000);
    expect(await host.ended('lead', message.id)).toBeNull();
    await host.pass(20_000);
    expect(await host.ended('lead', message.id)).toBe('ignored');
    await host.pass(3_600_000);
    expect(wire.ids).toEqual([message.id]);
    expect(await host.workspace.own.journal.history({ limit: 10 })).toHaveLength(1);
  });

  it('leaves what must not be answered no longer than until it is accepted, or taken back [C2A-105]', async () => {
    const { host } = await aDay();
    const wire = new FakeWire();
    await host.bind(wire, 'bob', { deliver: 'all' });
    await inChannel(host.workspace, '#c', 'lead', 'bob');
    const { message } = await host.send('lead', '#c', 'chatter');
    await host.pass(10_000);
    expect(await host.ended('bob', message.id)).toBe('ignored');
    wire.accepts = false;
    const unseen = await host.send('lead', '#c', 'more chatter');
    await host.pass(5000);
    await remove(host.workspace, AgentName.parse('lead'), host.workspace.own, unseen.message.id);
    await host.pass(6000);
    expect(wire.ids).toContain(unseen.message.id);
    expect(await host.ended('bob', unseen.message.id)).toBe('superseded');
  });

  it('brings back what work stands still for as a knock, three times at equal intervals [C2A-N12]', async () => {
    const { host, wire } = await aDay();
    await anOwner(host.workspace, 'olga');
    const obligation = { blocks: 'halted' };
    const { message } = await host.send('bob', '@lead', 'free the zanzibar lock', { obligation });
    const began = host.workspace.now();
    const back: number[] = [];
    for (let n = 1; n <= 40; n += 1) {
      const before = wire.delivered.length;
      await host.pass(60_000);
      for (const frame of wire.delivered.slice(before)) {
        expect(frame.eventId).toBe(message.id);
        if (frame.injection.mode === 'notify') back.push(Math.round((host.workspace.now() - began) / 60_000));
      }
    }
    expect(back).toEqual([6, 11, 16].map((minute) => minute - 1));
    expect(wire.prompts.filter((text) => text.includes('zanzibar'))).toHaveLength(1);
  });

  it('ends a held copy as soon as another process has ended its obligation', async () => {
    const { host, wire } = await aDay();
    const one = await host.send('bob', '@lead', 'please look');
    await host.pass(1000);
    const two = await host.send('bob', '@lead', 'and look at that');
    await host.pass(1000);
    // By a command, in another process.
    await react(host.workspace, host.workspace.who('lead'), one.message.id, { signal: 'done' });
    await remove(host.workspace, AgentName.parse('bob'), host.workspace.own, two.message.id);
    await host.pass(6000);
    expect(await host.ended('lead', one.message.id)).toBe('responded');
    expect(await host.ended('lead', two.message.id)).toBe('superseded');
    expect(wire.cancelled.map(({ eventId }) => eventId)).toEqual([two.message.id]);
  });

  it('asks one of a role, and the next when that one declines or lets it lie; who claims it gets the text [C2A-60f] [C2A-136]', async () => {
    const names = ['dev', 'ops', 'sre'];
    const { host } = await aDay(...names);
    await withRole(host.workspace, 'backend', ...names);
    await inChannel(host.workspace, '#c', 'bob', ...names);
    const wires = new Map(names.map((name) => [name, new FakeWire()]));
    for (const [name, wire] of wires) await host.bind(wire, name);
    const { message } = await host.send('bob', '#c', '@backend the rollback is stuck');
    const asked: [string, FakeWire][] = [];
    const ask = async (ms: number): Promise<FakeWire> => {
      await host.pass(ms);
      const now = [...wires].filter(([, wire]) => wire.ids.includes(message.id));
      expect(now).toHaveLength(asked.length + 1);
      const next = now.find(([name]) => !asked.some(([one]) => one === name)) ?? ['', new FakeWire()];
      asked.push(next);
      return next[1];
    };
    const first = await ask(10_000);
    for (const wire of wires.values()) {
      expect(JSON.stringify(await host.call(wire, 'chat.list_events', {}))).toContain('rollback is stuck');
    }
    await host.call(first, 'chat.react', { inReplyTo: message.id, signal: 'declined' });
    await ask(10_000);
    const third = await ask(60_000);
    await host.call(third, 'chat.claim', { eventId: message.id });
    await host.pass(3000);
    expect(third.delivered.map(({ injection, content }) => `${injection.mode} ${content?.length ?? 0}`)).toEqual([
      'notify 0',
      'buffered 1',
    ]);
    const full = [...wires.values()].filter(({ prompts }) => prompts.join('\n').includes('rollback is stuck'));
    expect(full).toEqual([third]);
  });
});

describe('a digest', () => {
  it('tells at most every quarter of an hour who said how much where, and wants no answer [C2A-75] [C2A-76] [C2A-21] [C2A-36]', async () => {
    const { host, wire } = await aDay();
    await inChannel(host.workspace, '#ci', 'lead', 'bob');
    const ids: string[] = [];
    for (let n = 0; n < 4; n += 1) {
      ids.push((await host.send('bob', '#ci', `build ${n} zebra`, { intent: 'status' })).message.id);
      await host.pass(60_000);
    }
    expect(wire.delivered).toEqual([]);
    await host.pass(15 * 60_000);
    expect(wire.delivered).toMatchObject([
      {
        source: { platform: 'parley', workspaceId: 'parley' },
        attention: { policy: 'must_not_respond', reason: 'digest' },
        injection: { mode: 'digest' },
        conversation: { kind: 'system' },
        merged: ids,
      },
    ]);
    expect(wire.prompts[0]).toMatch(/#ci.*4 messages, from bob/);
    expect(wire.prompts[0]).not.toContain('zebra');
    expect(await Promise.all(ids.map((id) => host.ended('lead', id)))).toEqual(ids.map(() => 'ignored'));
    // The next digest waits for a quarter of an hour.
    await host.send('bob', '#ci', 'build 4 zebra', { intent: 'status' });
    await host.pass(5 * 60_000);
    expect(wire.delivered).toHaveLength(1);
    await host.pass(10 * 60_000);
    expect(wire.delivered).toHaveLength(2);
    // There is never an empty digest.
    await host.pass(60 * 60_000);
    expect(wire.delivered).toHaveLength(2);
  });

  it('shows in full what a guard kept for it, and what has no room comes with the next one [C2A-D10]', async () => {
    const { host, wire } = await aDay();
    const kept = async (body: string): Promise<string> => {
      const { message, copies } = await host.send('bob', '@lead', body, { intent: 'status' });
      for (const { mailbox, attention } of copies) {
        await host.workspace.own.journal.reconsider(mailbox, message.id, { ...attention, reason: 'loop' });
      }
      return message.id;
    };
    const short = await kept('our caches are still fine\nC2A EVENT');
    const long = await kept('zebra '.repeat(6_000));
    await host.pass(16 * 60_000);
    expect(wire.delivered).toMatchObject([{ attention: { policy: 'must_not_respond' }, merged: [short] }]);
    expect(wire.prompts[0]).toContain('C2A MESSAGES');
    expect(wire.prompts[0]).toContain('> our caches are still fine\n> C2A EVENT');
    expect(await host.ended('lead', long)).toBeNull();
    await host.pass(16 * 60_000);
    expect(wire.prompts[1]).toContain('> zebra');
    expect(wire.prompts[1]).toContain('more characters, pull with');
    expect(await host.ended('lead', long)).toBe('ignored');
  });

  it('that holds a call by name is more than news, and what is owed in it stays owed [C2A-76]', async () => {
    const { host, wire } = await aDay();
    await host.workspace.own.directory.amend(AgentName.parse('lead'), () => ({ quiet: { on: true } }));
    const deadline = new Date(host.workspace.now() + 3 * 3_600_000).toISOString();
    const { message, copies } = await host.send('bob', '@lead', 'could you look at it?', { deadline });
    for (const { mailbox, attention } of copies) {
      await host.workspace.own.journal.reconsider(mailbox, message.id, { ...attention, injection: 'digest' });
    }
    await host.pass(16 * 60_000);
    expect(wire.delivered).toMatchObject([
      { attention: { policy: 'must_respond', reason: 'digest' }, merged: [message.id] },
    ]);
    expect(await host.ended('lead', message.id)).toBeNull();
    await host.call(wire, 'chat.react', { inReplyTo: message.id, signal: 'done' });
    expect(await host.ended('lead', message.id)).toBe('responded');
  });
});

describe('progress', () => {
  it('is no chat: it is told where somebody asks, in a digest, and nowhere else [C2A-157] [C2A-158] [C2A-96f]', async () => {
    const { host, wire } = await aDay('boss');
    await inChannel(host.workspace, '#work', 'lead', 'boss');
    const boss = new FakeWire();
    await host.bind(boss, 'boss');
    host.host.progress(wire, { progressToken: 'deploy-1', progress: 2, total: 5, message: 'checked the marmalade' });
    await host.send('bob', '@lead', 'hello there');
    await host.pass(5000);
    expect(wire.prompts.join('\n')).not.toContain('marmalade');
    await host.send('bob', '@lead', 'what is the status of it?');
    await host.pass(5000);
    expect(wire.prompts.at(-1)).toContain('marmalade');
    expect(boss.delivered).toEqual([]);
    expect(await host.workspace.own.journal.history({ limit: 10 })).toHaveLength(2);
    await host.pass(15 * 60_000);
    expect(boss.delivered).toMatchObject([{ attention: { policy: 'must_not_respond', reason: 'digest' } }]);
    expect(boss.prompts[0]).toContain('marmalade');
  });
});

it('an id of a digest is one that a harness can keep', async () => {
  const { host, wire } = await aDay();
  await inChannel(host.workspace, '#ci', 'lead', 'bob');
  await host.send('bob', '#ci', 'build', { intent: 'status' });
  await host.pass(16 * 60_000);
  expect(wire.ids.every((id) => MessageId.safeParse(id).success)).toBe(true);
  expect(wire.ids).toHaveLength(1);
});
