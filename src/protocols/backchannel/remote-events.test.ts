import { afterEach, describe, expect, it } from 'bun:test';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { aMessage } from '../../../test/support/mail.ts';
import { until } from '../../../test/support/bch.ts';
import { EventParser, EventStream, SILENCE_MS } from './remote-events.ts';
import { RelayHttp } from './remote-http.ts';

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n';
const open: { server: Server; stream: EventStream | undefined }[] = [];
afterEach(async () => {
  for (const { server, stream } of open.splice(0)) {
    server.close();
    await stream?.close();
  }
});

function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

/** A stream whose server does this with every connection; everything that was heard, and every request. */
async function listening(act: (socket: Socket, connection: number) => void, silenceMs?: number) {
  const heard: string[] = [];
  const requests: string[] = [];
  const server = createServer((socket) =>
    socket
      .on('error', () => {})
      .on('data', (bytes) => {
        requests.push(bytes.toString());
        act(socket, requests.length);
      }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  const stream = new EventStream(new RelayHttp({ url, token: 't' }), '/v1/events/bob', {
    onMessage: ({ body }) => heard.push(body),
    ...(silenceMs !== undefined && { silenceMs }),
  });
  open.push({ server, stream });
  return { heard, requests };
}

describe('the stream of a relay', () => {
  it('needs no headers before the first event, however late it comes, and no lines but data [BC-B6.3, BC-B6.7]', async () => {
    const { heard, requests } = await listening((socket) => {
      socket.write(HEAD);
      setTimeout(() => socket.write(`\r\n${chunk(`data: ${JSON.stringify(aMessage({ body: 'late' }))}\n\n`)}`), 700);
    });
    await until('the message', () => heard.length > 0);
    expect(heard).toEqual(['late']);
    expect(requests).toHaveLength(1);
    // The original's headers come with its first sign of life, after 25 s.
    expect(SILENCE_MS).toBeGreaterThanOrEqual(30_000);
  });

  it('is made again when it is silent for too long, as after a sleep of the machine', async () => {
    const { heard, requests } = await listening((socket, connection) => {
      socket.write(`${HEAD}\r\n`);
      if (connection >= 2) socket.write(chunk(`data: ${JSON.stringify(aMessage({ body: 'awake' }))}\n\n`));
    }, 200);
    await until('the message', () => heard.length > 0);
    expect(requests.length).toBeGreaterThanOrEqual(2);
  });

  it('goes on after the last event that it heard, where the relay numbers them', async () => {
    const { requests } = await listening((socket, connection) => {
      const text = `id: 4${connection}\ndata: ${JSON.stringify(aMessage())}\n\n`;
      socket.write(`${HEAD}\r\n${chunk(text)}`);
      setTimeout(() => socket.destroy(), 50);
    });
    await until('a second connection', () => requests.length > 1);
    expect(requests[0]).not.toMatch(/last-event-id/i);
    expect(requests[1]).toMatch(/last-event-id: 41\r\n/i);
  });

  it('goes on after the last number that can stand in a header', async () => {
    const { requests } = await listening((socket) => {
      const event = (id: string): string => `id: ${id}\ndata: ${JSON.stringify(aMessage())}\n\n`;
      socket.write(`${HEAD}\r\n${chunk(event('7') + event('a\u0000b ü'))}`);
      setTimeout(() => socket.destroy(), 50);
    });
    await until('a second connection', () => requests.length > 1);
    expect(requests[1]).toMatch(/last-event-id: 7\r\n/i);
  });
});

describe('the parser of a stream', () => {
  function parsed(...pieces: string[]): { data: string; id: string | undefined }[] {
    const events: { data: string; id: string | undefined }[] = [];
    const parser = new EventParser((data, id) => events.push({ data, id }));
    for (const piece of pieces) parser.add(new TextEncoder().encode(piece));
    return events;
  }

  it('finds the same events however the bytes are cut', () => {
    const text = ': keepalive\n\nid: 7\ndata: {"a":"ü"}\n\nevent: x\ndata:b\n\ndatabase: no\n\ndata: c\r\n\r\n';
    const whole = parsed(text);
    expect(whole.map(({ data }) => data)).toEqual(['{"a":"ü"}', 'b', 'c']);
    expect(whole[0]?.id).toBe('7');
    const bytes = new TextEncoder().encode(text);
    const events: string[] = [];
    const parser = new EventParser((data) => events.push(data));
    for (const byte of bytes) parser.add(Uint8Array.of(byte));
    expect(events).toEqual(whole.map(({ data }) => data));
  });

  it('takes a large event in thousands of pieces without slowing down', () => {
    const piece = 'x'.repeat(16_384);
    const events = parsed('data: ', ...Array.from({ length: 1000 }, () => piece), '\n\n');
    expect(events[0]?.data.length).toBe(16_384_000);
  });

  it.each([
    ['no end of a line', 'x'.repeat(1024 * 1024)],
    ['no end of an event', `${'data: x'.padEnd(1023, 'x')}\n`.repeat(1024)],
    ['nothing but comments', `${': x'.padEnd(1023, 'x')}\n`.repeat(1024)],
  ])('gives up a stream with %s', (_what, piece) => {
    const bytes = new TextEncoder().encode(piece);
    const parser = new EventParser(() => {});
    expect(() => {
      for (let n = 0; n < 130; n += 1) parser.add(bytes);
    }).toThrow('an event without end');
  });
});
