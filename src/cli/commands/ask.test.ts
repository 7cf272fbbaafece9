import { afterEach, expect, it, mock, spyOn } from 'bun:test';
import { Refusal } from '../../core/refusal.ts';
import { ControlClient } from '../../protocols/control/client.ts';
import type { Context } from '../context.ts';
import { commands } from './ask.ts';

afterEach(() => mock.restore());

it('`parley ask` sends nothing to a server that takes only one connection, and closes that', async () => {
  const asked: unknown[] = [];
  const close = mock(() => {});
  const client = { request: async (fields: unknown) => asked.push(fields), close } as unknown as ControlClient;
  const open = spyOn(ControlClient, 'open');
  open.mockResolvedValueOnce(client).mockRejectedValueOnce(new Refusal('unreachable', 'no control server answers'));
  const context = { env: {}, settings: {}, json: false } as unknown as Context;
  await expect(commands.ask.run(context, {}, ['api', 'hello'])).rejects.toThrow('no control server answers');
  expect(asked).toEqual([]);
  expect(close).toHaveBeenCalledTimes(1);
});
