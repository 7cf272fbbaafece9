import { afterEach, describe, expect, it } from 'bun:test';
import { connect } from 'node:net';
import { temporaryHome } from '../../test/support/home.ts';
import type { Accept, Listening } from './connection.ts';
import { textOf } from './lines.ts';
import { serveUnixSocket } from './unix-socket.ts';

let listening: Listening | undefined;
afterEach(() => listening?.close());

/** A server that echoes every line after a pause. */
const echo: Accept = (connection) => {
  let last = Promise.resolve();
  return {
    receive(line) {
      last = last.then(() => Bun.sleep(5)).then(() => void connection.write(`${textOf(line as Uint8Array)}`));
    },
    tooLong: () => void connection.write('too long'),
    idle: () => last,
    ended: async () => {},
  };
};

/** All output for a caller that writes this and closes its side at once. */
async function answersTo(text: string, halfOpen: boolean, accept = echo): Promise<string> {
  const path = `${temporaryHome()}/socket`;
  const user = process.getuid?.() ?? 0;
  const log = (): void => {};
  const place = { path, name: 'test', otherwise: 'stop', user, userOf: () => user, lineLimit: 20, halfOpen, log };
  listening = await serveUnixSocket(accept, place);
  const socket = connect({ path, allowHalfOpen: true });
  socket.end(text);
  let heard = '';
  for await (const chunk of socket) heard += String(chunk);
  return heard;
}

describe('a caller that closes its side at once', () => {
  it('gets every answer where that is allowed, also to a last line without an end', async () => {
    expect(await answersTo('one\ntwo\nlast', true)).toBe('one\ntwo\nlast\n');
  });

  it('loses its connection otherwise', async () => {
    expect(await answersTo('one\n', false)).toBe('');
  });

  it('hears of a line that is too long, and of the one after it', async () => {
    expect(await answersTo(`${'x'.repeat(30)}\nnext\n`, true)).toBe('too long\nnext\n');
  });

  it('gets more than a socket takes at once, whole', async () => {
    const long = 'x'.repeat(3_000_000);
    const talkative: Accept = (connection) => echo({ ...connection, write: () => connection.write(long) });
    expect(await answersTo('one\ntwo\n', true, talkative)).toBe(`${long}\n${long}\n`);
  });
});
