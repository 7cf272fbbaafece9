import type { Relay } from './process.ts';

/** Opens the SSE stream of one agent on a plain socket, and passes each chunk to `onText`. Resolves when the headers have arrived. */
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
