import { describe, expect, it } from 'bun:test';
import { JsonRpcPeer, NoAnswer, RemoteError } from './jsonrpc.ts';

/** A peer, and the frames that it wrote. */
function aPeer(): { peer: JsonRpcPeer; written: Record<string, unknown>[]; say: (frame: object) => void } {
  const written: Record<string, unknown>[] = [];
  const peer = new JsonRpcPeer((frame) => written.push(JSON.parse(frame) as Record<string, unknown>), {
    request() {},
    notification() {},
    broken() {},
  });
  return { peer, written, say: (frame) => peer.receive(JSON.stringify({ jsonrpc: '2.0', ...frame })) };
}

describe('a request of ours', () => {
  it('has the answer to its id, whether that comes back as a text or a number', async () => {
    const { peer, written, say } = aPeer();
    const [one, two] = [peer.request('a', {}), peer.request('b', { x: 1 })];
    expect(written).toEqual([
      { jsonrpc: '2.0', id: '1', method: 'a', params: {} },
      { jsonrpc: '2.0', id: '2', method: 'b', params: { x: 1 } },
    ]);
    say({ id: 2, result: 'second' });
    say({ id: '1', result: 'first' });
    say({ id: '1', result: 'again' });
    expect([await one.answer, await two.answer]).toEqual(['first', 'second']);
  });

  it.each([
    ['an error', { error: { code: -32003, message: 'no' } }],
    ['an error beside an empty result', { error: { code: -32003, message: 'no' }, result: null }],
  ])('fails with %s', async (_what, frame) => {
    const { peer, say } = aPeer();
    const { answer } = peer.request('a', {});
    say({ id: '1', ...frame });
    expect(answer).rejects.toMatchObject({ code: -32003, message: 'no' });
    expect(answer).rejects.toBeInstanceOf(RemoteError);
  });

  it('succeeds with an empty result, even if the answer has a null error', async () => {
    const { peer, say } = aPeer();
    const [one, two] = [peer.request('a', {}), peer.request('a', {})];
    say({ id: '1', result: null });
    say({ id: '2', result: null, error: null });
    expect([await one.answer, await two.answer]).toEqual([null, null]);
  });

  it('fails after its time limit, and a later answer is ignored', async () => {
    const { peer, say } = aPeer();
    const { answer } = peer.request('a', {}, { ms: 1 });
    await expect(answer).rejects.toBeInstanceOf(NoAnswer);
    say({ id: '1', result: {} });
  });

  it('fails when the other side goes, and so does every later one', async () => {
    const { peer } = aPeer();
    const { answer } = peer.request('a', {}, { ms: 60_000 });
    peer.close();
    expect(answer).rejects.toMatchObject({ code: 'unreachable' });
    expect(() => peer.request('a', {})).toThrow('went away');
  });
});

describe('a peer that leaves out the version', () => {
  it('is understood only where that is allowed', () => {
    const heard: string[] = [];
    const handler = {
      request() {},
      notification: ({ method }: { method: string }) => void heard.push(method),
      broken: () => void heard.push('broken'),
    };
    for (const version of ['optional', 'required'] as const)
      new JsonRpcPeer(() => {}, handler, version).receive('{"method":"changed","params":{}}');
    expect(heard).toEqual(['changed', 'broken']);
  });
});
