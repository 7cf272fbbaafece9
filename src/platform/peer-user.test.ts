import { expect, it } from 'bun:test';
import { temporaryHome } from '../../test/support/home.ts';
import { userOf } from './peer-user.ts';

it('the user at the other end of a socket is known, and null is returned for any other file', async () => {
  const path = `${temporaryHome()}/socket`;
  const { promise, resolve } = Promise.withResolvers<number>();
  const listener = Bun.listen({
    unix: path,
    socket: { open: (socket) => resolve((socket as unknown as { fd: number }).fd), data() {} },
  });
  const client = await Bun.connect({ unix: path, socket: { data() {} } });
  expect(userOf(await promise)).toBe(process.getuid?.() ?? null);
  client.end();
  listener.stop(true);
  expect(userOf(0)).toBeNull();
});
