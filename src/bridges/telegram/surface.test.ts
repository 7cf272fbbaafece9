import { afterEach, describe, expect, it } from 'bun:test';
import { ScriptedServer } from '../../../test/support/control-server.ts';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import type { TestHost } from '../../../test/support/host.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { Telegram } from '../../../test/support/telegram.ts';
import { within } from '../../../test/support/within.ts';
import { AgentName } from '../../core/names.ts';
import { FRAME_LIMIT } from '../../wire/jsonrpc.ts';
import { serveUnixSocket } from '../../wire/unix-socket.ts';
import { edit } from '../../protocols/c2a/edit.ts';
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

/** Returns what ends it, with its connections. */
async function serve(host: TestHost, home: string): Promise<() => Promise<void>> {
  const server = new HostServer({ engine: host.host, version: '0', now: Date.now, log: () => {} });
  const options = {
    name: 'host',
    otherwise: '',
    user: USER,
    userOf: () => USER,
    lineLimit: FRAME_LIMIT,
    log: () => {},
  };
  const listening = await serveUnixSocket(server.accept, { path: `${home}/host/socket`, ...options });
  opened.push(server, listening);
  return async () => {
    listening.close();
    await server.close();
  };
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

/** The chat is connected, and the user wrote to `bob` there, so `bob` can write to the user. */
async function aTalk() {
  const chat = await aChat();
  const { host, telegram, wire } = chat;
  const endHost = await chat.serve();
  await chat.open();
  await connected(host);
  const write = async (text: string, fields: object = {}): Promise<void> => {
    telegram.write(text, { chat: telegram.user, fields });
    const isIt = (one: string): boolean => text.endsWith(one.trim());
    await passUntil(host, async () => wire.texts.some(isIt));
  };
  await write('@bob is it green?');
  const isEnded = async (id: string): Promise<boolean> => (await host.ended('telegram.77', id)) !== null;
  const ended = (id: string) => passUntil(host, () => isEnded(id));
  const texts = () => telegram.posted.map(({ text }) => text);
  return { ...chat, endHost, write, ended, texts };
}

/** Moves the time of the host until this is so. */
async function passUntil(host: TestHost, isSo: () => Promise<boolean>): Promise<void> {
  await within(DEADLINE, async () => {
    await host.pass(1000);
    return isSo();
  });
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

  it('says once what an agent says, although the host goes away while Telegram is busy', async () => {
    const { host, telegram, serve: serveHost, endHost, ended, texts } = await aTalk();
    telegram.isBusy = true;
    const { message } = await host.send('bob', '@telegram.77', 'It is green.');
    await passUntil(host, async () => telegram.calls.some(({ method }) => method === 'sendMessage'));
    await endHost();
    await within(DEADLINE, async () => host.host.surface.all().length === 0);
    await serveHost();
    await connected(host);
    // Now the host shows it again.
    const { journal } = host.workspace.own;
    const held = () => journal.heldBy(AgentName.parse('telegram.77'), 'bearer.surface-telegram');
    await passUntil(host, async () => (await held()).length > 0);
    telegram.isBusy = false;
    await ended(message.id);
    expect(texts()).toEqual(['bob: It is green.']);
  });

  it('takes a reply to any part of a long message', async () => {
    const { host, telegram, wire, write, ended } = await aTalk();
    const { message } = await host.send('bob', '@telegram.77', `${'word '.repeat(1000)}end`);
    await ended(message.id);
    expect(telegram.posted).toHaveLength(2);
    await write('thank you, go on', { reply_to_message: { message_id: telegram.posted.at(-1)?.id } });
    expect(wire.delivered.at(-1)).toMatchObject({ attention: { reason: 'thread_reply' } });
  });

  it.each([
    ['replaces the one before', [], ['bob: It is red.']],
    ['is there already', ['Bad Request: message is not modified'], ['bob: It is green.']],
    [
      'is marked, as the one before is gone',
      ['Bad Request: message to edit not found'],
      ['bob: It is green.', 'bob: edited: It is red.'],
    ],
  ])('shows what an agent changed: the new text %s', async (_what, refusals, posted) => {
    const { host, telegram, ended, texts } = await aTalk();
    const before = await host.send('bob', '@telegram.77', 'It is green.');
    await ended(before.message.id);
    for (const one of refusals) telegram.refuse('editMessageText', 400, 0, one);
    const bob = AgentName.parse('bob');
    const body = 'It is red.';
    const { message } = await edit(host.workspace, bob, host.workspace.own, before.message.id, { body });
    await ended(message.id);
    expect(await host.ended('telegram.77', message.id)).not.toBe('failed');
    expect(texts()).toEqual(posted);
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
