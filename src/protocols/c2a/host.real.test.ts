import { expect, it } from 'bun:test';
import { aDurableWorkspace } from '../../../test/support/durable-workspace.ts';
import { FakeWire } from '../../../test/support/host.ts';
import { EVERYTHING } from '../../../test/support/host-server.ts';
import { within } from '../../../test/support/within.ts';
import { PROMPTS } from './prompt.ts';
import { Bind, Capabilities } from './shapes.ts';
import { Draft } from '../../core/message.ts';
import { AgentName } from '../../core/names.ts';
import { send } from '../../core/mail/send.ts';
import { Host } from './host.ts';

const LEAD = AgentName.parse('lead');
const BOB = AgentName.parse('bob');

it('a host on a real home delivers mail that others store there, and the next host finds the copies that the first held', async () => {
  const workspace = await aDurableWorkspace('lead', 'bob');
  const start = async (): Promise<Host> => {
    const host = new Host({
      workspace,
      home: workspace.own,
      now: Date.now,
      after: (ms, run) => {
        const timer = setTimeout(run, ms);
        return { cancel: () => clearTimeout(timer) };
      },
      newToken: () => crypto.randomUUID(),
      hash: (token) => `#${token}`,
      log: () => {},
      render: PROMPTS,
    });
    await host.start();
    return host;
  };
  const say = async (body: string) => send(workspace, BOB, Draft.parse({ to: '@lead', body }));
  const bind = (host: Host, wire: FakeWire, token?: string) =>
    host.bind(
      wire,
      Capabilities.parse(EVERYTHING),
      '2026-08-11',
      Bind.parse({ sessionId: 's', identities: ['lead'], token }),
    );

  const first = await start();
  const wire = new FakeWire();
  const { token } = await bind(first, wire);
  const one = await say('one');
  await within(20_000, async () => wire.delivered.length === 1);
  expect(wire.ids).toEqual([one.message.id]);
  await within(
    20_000,
    async () => (await workspace.own.journal.trace(one.message.id))?.copies[0]?.receipts.at(-1)?.step === 'accepted',
  );
  wire.accepts = false;
  const two = await say('two');
  await within(20_000, async () => wire.delivered.length === 2);
  first.gone(wire);
  await first.close();

  const second = await start();
  const again = new FakeWire();
  await bind(second, again, token);
  await within(20_000, async () => again.delivered.length === 1);
  expect(again.delivered).toMatchObject([{ eventId: two.message.id, reliability: { attempt: 2 } }]);
  expect((await workspace.own.journal.copy(LEAD, one.message.id))?.owner).toBe('bearer.session-s');
  await second.call(again, undefined, 'chat.react', { inReplyTo: one.message.id, signal: 'done' });
  expect((await workspace.own.journal.copy(LEAD, one.message.id))?.disposition).toBe('responded');
  await second.close();
});
