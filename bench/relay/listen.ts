import type { Relay } from './process.ts';

/** An SSE stream of one agent, read from a bare socket, piece by piece. Resolves when the headers are there. */
export async function listen(relay: Relay, agent: number, onText: (text: string) => void): Promise<{ close(): void }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const decoder = new TextDecoder();
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port: relay.port,
    socket: {
      data(_socket, bytes) {
        resolve();
        onText(decoder.decode(bytes, { stream: true }));
      },
    },
  });
  const { names, tokens } = relay;
  socket.write(
    `GET /v1/events/${names[agent]} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${tokens[agent]}\r\n\r\n`,
  );
  await promise;
  return { close: () => void socket.end() };
}
