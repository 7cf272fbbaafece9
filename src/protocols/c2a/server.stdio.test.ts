import { describe, expect, it } from 'bun:test';
import { anInitialize, FakeEngine } from '../../../test/support/host-server.ts';
import type { Told } from '../../../test/support/host-server.ts';
import { serveStdio } from '../../wire/connection.ts';
import { HostServer } from './server.ts';

async function* piecesOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield new TextEncoder().encode(text);
}

function aHost(engine: FakeEngine, log: string[] = []): HostServer {
  return new HostServer({ engine, version: '0', now: Date.now, log: (event) => log.push(event) });
}

const INITIALIZE = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: anInitialize() });
const CLAIM = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'chat.claim', params: { eventId: 'e' } });

describe('standard input and output', () => {
  it('end with their parent, and what it asked for is done and answered first [C2A-32]', async () => {
    const engine = new FakeEngine();
    engine.answer = async () => {
      await Bun.sleep(5);
      return { ok: true };
    };
    const written: string[] = [];
    const write = async (bytes: Uint8Array): Promise<void> => void written.push(new TextDecoder().decode(bytes));
    // The last line has no end: its sender is gone.
    await serveStdio(aHost(engine).accept, piecesOf(`${INITIALIZE}\n`, CLAIM), write);
    const told = written.map((line) => JSON.parse(line) as Told);
    expect(written.every((line) => line.endsWith('\n') && line.indexOf('\n') === line.length - 1)).toBe(true);
    expect(told).toMatchObject([{ id: 1 }, { id: 2, result: { ok: true } }]);
    expect(engine.gones).toBe(1);
  });

  it('end when the parent’s pipe is closed', async () => {
    const engine = new FakeEngine();
    const input = (async function* () {
      yield* piecesOf(`${INITIALIZE}\n`);
      await new Promise(() => {});
    })();
    const write = async (): Promise<void> => {
      throw Object.assign(new Error('broken pipe'), { code: 'EPIPE' });
    };
    await serveStdio(aHost(engine).accept, input, write);
    expect(engine.gones).toBe(1);
  });

  it('are cut for a parent that does not read', async () => {
    const engine = new FakeEngine();
    const log: string[] = [];
    engine.answer = () => ({ text: 'x'.repeat(1_000_000) });
    const input = (async function* () {
      yield* piecesOf(`${INITIALIZE}\n`);
      for (let count = 0; count < 40; count += 1) {
        yield* piecesOf(`${CLAIM}\n`);
        await Bun.sleep(0);
      }
      await new Promise(() => {});
    })();
    await serveStdio(aHost(engine, log).accept, input, () => new Promise(() => {}));
    expect(log).toContain('host_peer_cut');
    expect(engine.gones).toBe(1);
  });
});
