import { afterEach, describe, expect, it } from 'bun:test';
import { ScriptedServer } from '../../../test/support/control-server.ts';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import type { TestHost } from '../../../test/support/host.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { Telegram } from '../../../test/support/telegram.ts';
import { within } from '../../../test/support/within.ts';
import { FRAME_LIMIT } from '../../wire/jsonrpc.ts';
import { serveUnixSocket } from '../../wire/unix-socket.ts';
import { HostServer } from '../../protocols/c2a/server.ts';
import { openTelegram } from './bridge.ts';

const DEADLINE = 20_000;
const USER = process.getuid?.() ?? 0;

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});

/** A bot, whose private chat is a surface of a host behind a real socket; and a harness for `bob`. */
async function aChat() {
  const home = temporaryHome();
  const telegram = new Telegram();
  const scripted = await ScriptedServer.start();
  opened.push(telegram, scripted);
  scripted.configure({ sessions: {}, ...telegram.settings });
  const host = await aHost('bob');
  const open = () => bridge(scripted, home);
  const chat = { host, telegram, open, serve: () => serve(host, home) };
  const wire = new FakeWire();
  await host.bind(wire, 'bob');
  return { ...chat, wire };
}

async function serve(host: TestHost, home: string): Promise<void> {
  const server = new HostServer({ engine: host.host, version: '0', now: Date.now, log: () => {} });
  const options = {
    name: 'host',
    otherwise: '',
    user: USER,
    userOf: () => USER,
    lineLimit: FRAME_LIMIT,
    log: () => {},
  };
  opened.push(server, await serveUnixSocket(server.accept, { path: `${home}/host/socket`, ...options }));
}

async function bridge({ control, config, home }: ScriptedServer, parley: string): Promise<void> {
  const chat = await openTelegram({
    control,
    config,
    store: control.store,
    env: { HOME: home, PARLEY_HOME: parley, PATH: process.env['PATH'] ?? '' },
    publish: async () => {},
    now: Date.now,
    log: () => {},
  });
  opened.push(chat);
}

/** A surface of the host is connected. */
async function connected({ host }: TestHost): Promise<void> {
  await within(DEADLINE, async () => host.surface.all().length === 1);
}

describe('the private chat with the bot', () => {
  it('is a surface: mail for an agent, its answer there, and an answer to that', async () => {
    const { host, telegram, wire, open, serve: serveHost } = await aChat();
    await serveHost();
    await open();
    await connected(host);
    const { user } = telegram;
    const now = (): number => Math.floor(host.workspace.now() / 1000);
    telegram.write('@bob is the build green?', {
      chat: user,
      fields: { date: now(), document: { file_id: 'F1', file_name: 'a.log' } },
    });
    const delivered = (text: string) =>
      within(DEADLINE, async () => {
        await host.pass(3000);
        return wire.texts.some((one) => one.trim() === text);
      });
    await delivered('is the build green?');
    const event = wire.delivered[0];
    expect(event).toMatchObject({
      source: { platform: 'telegram', workspaceId: '4242' },
      author: { id: 'telegram.77', kind: 'human', displayName: 'Ada' },
      content: [{ type: 'text' }, { type: 'file', ref: 'telegram:file/F1', label: 'a.log' }],
    });
    const said = { target: '@telegram.77', visibility: 'dm', directedness: 'to_me', idempotencyKey: 'a' };
    const answer = { ...said, text: 'It is. Shall I deploy?', inReplyTo: event?.eventId };
    expect(await host.call(wire, 'chat.send_message', answer)).toMatchObject({ shown: true });
    const shown = await telegram.said('bob: It is. Shall I deploy?');
    expect(shown.chat).toBe(user);
    telegram.write('yes', { chat: user, fields: { date: now(), reply_to_message: { message_id: shown.id } } });
    await delivered('yes');
    expect(wire.delivered.at(-1)).toMatchObject({ attention: { reason: 'thread_reply' } });
  });

  it('shows reactions, and one that Telegram lacks counts all the same', async () => {
    const { host, telegram, wire, open, serve: serveHost } = await aChat();
    await serveHost();
    await open();
    await connected(host);
    telegram.write('@bob please look', { chat: telegram.user });
    await within(DEADLINE, async () => {
      await host.pass(3000);
      return wire.delivered.length === 1;
    });
    const inReplyTo = wire.delivered[0]?.eventId;
    expect(await host.call(wire, 'chat.react', { inReplyTo, signal: 'blocked' })).toMatchObject({
      disposition: 'deferred',
    });
    await host.call(wire, 'chat.react', { inReplyTo, signal: 'done' });
    await within(DEADLINE, async () => telegram.reactions.length === 1);
    expect(telegram.reactions).toEqual([[1000, '💯']]);
  });

  it('says what is missing: a host, or an agent of that name', async () => {
    const { host, telegram, open, serve: serveHost } = await aChat();
    await open();
    telegram.write('@bob hello', { chat: telegram.user });
    await telegram.said(/^no host runs/);
    telegram.write('hello', { chat: telegram.user });
    await telegram.said(/^write in the topic of a session/);
    await serveHost();
    await connected(host);
    telegram.write('@bobby hello', { chat: telegram.user });
    await telegram.said(/no agent or role is called @bobby/);
  });
});
