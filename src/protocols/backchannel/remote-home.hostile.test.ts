import { afterEach, describe, expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { aMessage, bob, LOUD } from '../../../test/support/mail.ts';
import { until } from '../../../test/support/bch.ts';
import { Draft } from '../../core/message.ts';
import type { Message } from '../../core/message.ts';
import { openRelay } from './remote-home.ts';
import type { OpenRelay } from './remote-home.ts';
import { makeRoom, registerAt } from './remote-register.ts';

type Act = (body: Record<string, unknown>, request: Request) => unknown;

const open: { stop(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.stop();
});

/** A relay that answers whatever the test wants, and what it was asked. */
function aRelay(acts: Record<string, Act>) {
  const asked: { path: string; body: Record<string, unknown> }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const path = new URL(request.url).pathname;
      const body = ((await request.json().catch(() => null)) ?? {}) as Record<string, unknown>;
      asked.push({ path, body });
      const answer = acts[path]?.(body, request) ?? Response.json({ error: 'not found' }, { status: 404 });
      return answer instanceof Response ? answer : Response.json(answer);
    },
  });
  open.push({ stop: () => server.stop(true) });
  return { url: `http://127.0.0.1:${server.port}`, asked };
}

/** Bob at that relay, with an empty local mailbox. */
function bobAt(url: string): OpenRelay & { told: string[] } {
  const told: string[] = [];
  const home = openRelay({
    root: temporaryHome(),
    identity: { v: 1, agent: bob, url, token: 't' },
    durability: 'normal',
    kind: 'foreign',
    queues: false,
    judge: async () => ({ attention: LOUD }) as never,
    tell: (text) => told.push(text),
  });
  open.push({ stop: () => home.mailboxes.close().then(() => home.journal.close()) });
  return { ...home, told };
}

const KNOWS = { service: 'parley-relay', keys: true, leases: true };
const leased = (...messages: unknown[]): unknown => ({
  lease: 'bearer.1',
  until: '2100-01-01T00:00:00.000Z',
  messages: messages.map((message) => ({ message, attempt: 0 })),
});

/** Everything in the local mailbox, by claiming it. */
async function fetched({ mailboxes }: OpenRelay): Promise<string[]> {
  const { copies } = await mailboxes.claim(bob, await mailboxes.ids(bob), { ms: 10_000 });
  return copies.map(({ message }) => message.body).toSorted();
}

function lending(messages: Message[], lend: (asked: string[]) => unknown[]): Record<string, Act> {
  const settled = new Set<unknown>();
  return {
    '/v1/version': () => KNOWS,
    '/v1/inbox/bob': () => messages.filter(({ id }) => !settled.has(id)),
    '/v1/lease': ({ ids }) => leased(...lend((ids as string[]).filter((id) => !settled.has(id)))),
    '/v1/settle': ({ ids }) => {
      for (const id of ids as unknown[]) settled.add(id);
      return { settled: ids };
    },
  };
}

describe('mail that is fetched', () => {
  const mail = ['one', 'two', 'three'].map((body) => aMessage({ body }));

  it('is requested again until all of it is here, if one answer does not hold it', async () => {
    const { url, asked } = aRelay(lending(mail, (ids) => mail.filter(({ id }) => ids.includes(id)).slice(0, 1)));
    expect(await fetched(bobAt(url))).toEqual(['one', 'three', 'two']);
    expect(
      asked.filter(({ path }) => path === '/v1/lease').map(({ body }) => (body['ids'] as string[]).length),
    ).toEqual([3, 2, 1]);
  });

  it('is not requested endlessly from a relay that sends none of it', async () => {
    const { url, asked } = aRelay(lending(mail, () => [aMessage({ body: 'unasked' })]));
    expect(await fetched(bobAt(url))).toEqual([]);
    expect(asked.filter(({ path }) => path === '/v1/lease')).toHaveLength(1);
    expect(asked.filter(({ path }) => path === '/v1/settle')).toHaveLength(0);
  });

  it('never replaces mail with the same id, nor adds mail that was not requested', async () => {
    const [first, second] = mail as [Message, Message];
    let forged = false;
    const acts = lending(mail.slice(0, 1), (ids) => [
      ...mail.filter(({ id }) => ids.includes(id)),
      ...(forged ? [{ ...first, body: 'forged' }, aMessage({ body: 'unasked' }), { ...second, id: '../../up' }] : []),
    ]);
    const home = bobAt(
      aRelay({ ...acts, '/v1/inbox/bob': () => (forged ? [{ ...first, body: 'forged' }, second] : [first]) }).url,
    );
    await home.remote.bring(bob, () => true);
    forged = true;
    const seen = await home.mailboxes.peek(bob);
    expect(seen.map(({ message }) => message.body).toSorted()).toEqual(['one', 'two']);
    expect(await fetched(home)).toEqual(['one', 'two']);
    expect(await home.mailboxes.ids(bob)).toEqual([]);
  });

  it('is skipped if it could not be stored, and does not hold up other mail', async () => {
    const deep = JSON.stringify({ ...aMessage({ body: 'deep' }), x: 0 }).replace(
      '"x":0',
      `"x":${'['.repeat(200_000)}${']'.repeat(200_000)}`,
    );
    const [one] = mail as [Message];
    const acts = lending([one], () => []);
    const inbox = (): Response => new Response(`[${deep},${JSON.stringify(one)}]`);
    const lend = (): Response =>
      new Response(`{"lease":"bearer.1","messages":[{"message":${deep}},{"message":${JSON.stringify(one)}}]}`);
    const { url } = aRelay({ ...acts, '/v1/inbox/bob': inbox, '/v1/lease': lend });
    expect(await fetched(bobAt(url))).toEqual(['one']);
  });
});

describe('a watch at a relay', () => {
  it('looks into the inbox once when its stream goes on after the last number, for what came back from a loan [BC-C10]', async () => {
    const [loaned, told] = [aMessage({ body: 'on loan' }), aMessage({ body: 'told' })];
    let streams = 0;
    const { url, asked } = aRelay({
      '/v1/version': () => KNOWS,
      '/v1/inbox/bob': () => [loaned, told],
      '/v1/events/bob': (_body, request) => {
        streams += 1;
        const isBack = request.headers.get('last-event-id') === '2';
        const text = isBack ? ': listening\n\n' : `id: 2\ndata: ${JSON.stringify(told)}\n\n`;
        const stream = new ReadableStream({
          start(controller) {
            controller.enqueue(text);
            if (!isBack) controller.close();
          },
        });
        return new Response(stream, { headers: { 'content-type': 'text/event-stream' } });
      },
    });
    const { mailboxes } = bobAt(url);
    let rung = 0;
    const watch = mailboxes.watch(bob, () => (rung += 1));
    await until('the first message', () => rung === 1);
    expect(await mailboxes.ids(bob)).toEqual([told.id]);
    await until('the look', () => rung === 2);
    expect(new Set(await mailboxes.ids(bob))).toEqual(new Set([loaned.id, told.id]));
    expect((await mailboxes.read(bob, loaned.id))?.message.body).toBe('on loan');
    expect(streams).toBe(2);
    expect(asked.filter(({ path }) => path === '/v1/inbox/bob')).toHaveLength(1);
    watch.close();
  });
});

describe('what a relay says', () => {
  it('is always one safe line of text on a terminal', async () => {
    const error = `no\u001b]0;owned\u0007\r\n\u001b[2Jparley: all is well \u202eton ${'x'.repeat(5000)}`;
    const refused = (): Response => Response.json({ error }, { status: 403 });
    const home = bobAt(aRelay({ '/v1/inbox/bob': refused, '/v1/events/bob': refused }).url);
    const failed = await home.mailboxes.ids(bob).then(
      () => '',
      (no: unknown) => (no as Error).message,
    );
    const watch = home.mailboxes.watch(bob, () => {});
    await until('the trouble', () => home.told.length > 0);
    watch.close();
    for (const text of [failed, home.told[0] ?? '']) {
      expect(text).toStartWith('no ]0;owned [2Jparley: all is well ');
      expect(text).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(text.length).toBeLessThan(1100);
    }
  });

  it('is not taken for our message if it says something else', async () => {
    const draft = Draft.parse({ to: '@alice', body: 'pay 1', key: 'k' });
    for (const fields of [{ body: 'pay 1000' }, { from: 'mallory', body: 'pay 1' }]) {
      const answer = aMessage({ from: bob, to: '@alice', ...fields });
      const { remote, journal } = bobAt(aRelay({ '/v1/send': () => answer }).url);
      await expect(remote.post(bob, draft)).rejects.toMatchObject({ code: 'outcome_unknown' });
      expect(await journal.message(answer.id)).toBeNull();
    }
  });

  it('is refused as a token or room if it is malformed', async () => {
    const { url } = aRelay({
      '/v1/register': () => ({ name: 'bob', token: 'a\r\nx-evil: 1' }),
      '/v1/rooms': () => ({ roomId: '../up', roomToken: '\u001b[2J' }),
    });
    await expect(registerAt({ url }, bob, { room: 'room' })).rejects.toMatchObject({ code: 'unreachable' });
    await expect(makeRoom(url)).rejects.toMatchObject({ code: 'unreachable' });
    const astray = aRelay({ '/v1/rooms': () => ({ roomId: '../up', roomToken: 'good' }) });
    await expect(makeRoom(astray.url)).rejects.toMatchObject({ code: 'unreachable' });
  });
});
