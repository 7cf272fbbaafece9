import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { NoServer } from '../loopback.ts';
import { OpenCodeServer } from './server.ts';

const opened: { stop(): unknown }[] = [];
afterEach(() => opened.splice(0).forEach((one) => void one.stop()));

/** A server of OpenCode with these answers by path. It listens on the port in the file. */
function aServer(answers: Record<string, unknown> = {}, uid = process.getuid?.()) {
  const server = new OpenCodeServer(`${quickFolder()}/opencode/ccc-one`, uid);
  const words = server.prepare(['opencode', '-s', 'ses_1']);
  const [, password = ''] = /^PASSWORD=(\w+)$/m.exec(readFileSync(server.file, 'utf8')) ?? [];
  const asked: string[] = [];
  const listen = (secret = password): void => {
    const http = Bun.serve({
      hostname: '127.0.0.1',
      port: Number(words.at(words.indexOf('--port') + 1)),
      async fetch(request) {
        const { pathname } = new URL(request.url);
        if (request.headers.get('authorization') !== `Basic ${btoa(`opencode:${secret}`)}`)
          return new Response('', { status: 401 });
        asked.push(`${request.method} ${pathname} ${await request.text()}`);
        return Response.json(answers[pathname] ?? null);
      },
    });
    opened.push({ stop: () => http.stop(true) });
  };
  return { server, words, password, asked, listen };
}

describe('the server of an OpenCode that we started', () => {
  it('has a loopback port and a password that only its user can read', () => {
    const { server, words, password } = aServer();
    expect(words.slice(0, 2)).toEqual(['sh', '-c']);
    expect(words.slice(3, 7)).toEqual([server.file, 'opencode', '-s', 'ses_1']);
    expect(words.slice(-2)).toEqual(['--hostname', '127.0.0.1']);
    expect(password).toHaveLength(48);
    expect(words.join(' ')).not.toContain(password);
    expect(statSync(server.file).mode & 0o777).toBe(0o600);
    server.forget();
    expect(existsSync(server.file)).toBe(false);
  });

  it('gives its password to OpenCode by the environment', () => {
    const { words, password } = aServer();
    const script = words.slice(0, 4);
    const { stdout } = Bun.spawnSync([
      ...script,
      'sh',
      '-c',
      'echo "$OPENCODE_SERVER_USERNAME $OPENCODE_SERVER_PASSWORD $PORT"',
    ]);
    expect(stdout.toString().trim()).toBe(`opencode ${password}`);
  });

  it.each<[string, Record<string, unknown>]>([
    ['idle', { '/session/status': {} }],
    ['idle', { '/session/status': { other: { type: 'busy' } } }],
    ['active', { '/session/status': { ses_1: { type: 'busy' } }, '/permission': [], '/question': [] }],
    ['active', { '/session/status': { ses_1: { type: 'retry', attempt: 1 } } }],
    ['permission', { '/session/status': { ses_1: { type: 'busy' } }, '/permission': [{ id: 'per_1' }] }],
    ['question', { '/session/status': { ses_1: { type: 'busy' } }, '/question': [{ id: 'que_1' }] }],
  ])('says what a conversation does: %s', async (state, answers) => {
    const { server, listen } = aServer(answers);
    listen();
    expect(await server.state('ses_1')).toBe(state as never);
  });

  it('takes a prompt as a message and a text part with our ids, so that a second attempt adds nothing', async () => {
    const { server, asked, listen } = aServer();
    listen();
    await server.prompt('ses_1', 'msg_1', 'hi', new AbortController().signal);
    const body = { messageID: 'msg_1', parts: [{ id: 'prt_1', type: 'text', text: 'hi' }] };
    expect(asked).toEqual([`POST /session/ses_1/prompt_async ${JSON.stringify(body)}`]);
  });

  it('is not there if nothing listens, another program listens, or Parley never started it', async () => {
    const { server, listen } = aServer();
    await expect(server.state('ses_1')).rejects.toThrow(NoServer);
    listen('another');
    await expect(server.state('ses_1')).rejects.toThrow(NoServer);
    server.forget();
    await expect(server.state('ses_1')).rejects.toThrow(NoServer);
  });

  it.skipIf(process.platform !== 'linux')("is sent nothing where another user's program listens", async () => {
    const { server, asked, listen } = aServer({ '/session/status': {} }, 4_000_000);
    listen();
    await expect(server.state('ses_1')).rejects.toThrow('another user listens there');
    await expect(server.prompt('ses_1', 'msg_1', 'hi', new AbortController().signal)).rejects.toThrow(NoServer);
    expect(asked).toEqual([]);
  });

  it.each([[null], [[]], [{ ok: true }], ['<html>']])('is not one that answers %j', async (said) => {
    const { server, listen } = aServer({ '/session/status': said });
    listen();
    await expect(server.state('ses_1')).rejects.toThrow(NoServer);
  });
});
