import { describe, expect, it } from 'bun:test';
import { request, TestRelay } from '../../../test/support/relay-app.ts';
import { AgentName } from '../../core/names.ts';
import { hashOf } from '../../wire/tokens.ts';

const BOB = AgentName.parse('bob');

/** Bob listens with his token, and has been greeted. */
async function aListeningBob() {
  const relay = new TestRelay();
  const [alice, bob] = await relay.agents('alice', 'bob');
  const response = await relay.app.fetch(request('http://x/v1/events/bob', 'GET', { token: bob }));
  if (!response.body) throw new Error('a stream has a body');
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  expect((await reader.read()).value).toStartWith(': listening');
  const send = (body: string) => relay.ask('POST', '/v1/send', { token: alice, body: { to: '@bob', body } });
  return { directory: relay.home().directory, send, reader, bob: bob ?? '' };
}

describe('an open stream', () => {
  it('tells nothing more once its token is revoked, and ends [BC-14]', async () => {
    const { directory, send, reader } = await aListeningBob();
    const next = reader.read();
    await directory.giveToken(BOB, null);
    expect((await send('not for who has lost the token')).status).toBe(200);
    expect(await next).toEqual({ done: true, value: undefined });
  });

  it('tells nothing of the mail of somebody who registered the name again [BC-14, BC-17]', async () => {
    const { directory, send, reader } = await aListeningBob();
    const next = reader.read();
    await directory.remove(BOB);
    await directory.register(BOB, 'foreign', hashOf('the token of another bob'));
    await send('for the new bob');
    expect(await next).toEqual({ done: true, value: undefined });
  });

  it('goes on while its token is good', async () => {
    const { directory, send, reader, bob } = await aListeningBob();
    const next = reader.read();
    await directory.giveToken(BOB, hashOf(bob));
    await send('for bob');
    expect((await next).value).toContain('for bob');
    await reader.cancel();
  });
});
