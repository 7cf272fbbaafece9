// A driver here and what serves it there, on one line between them that a test can cut.
import { expect, it } from 'bun:test';
import { aTarget, ScriptedClient, ScriptedDriver } from '../../../test/support/scripted-session.ts';
import { HostUnreachable } from '../../core/ports/session.ts';
import type { SessionTarget } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';
import { JsonRpcPeer } from '../../wire/jsonrpc.ts';
import { DriveServer } from './drive.ts';
import type { HostListener } from './hosts.ts';
import { RemoteDriver } from './remote-driver.ts';

const NEVER = new AbortController().signal;

/** A host with one client. Every connection to it has a server of its own, as over ssh. */
class ScriptedHost {
  readonly client = new ScriptedClient('backend');
  /** Each session that was opened there. */
  readonly opened: SessionTarget[] = [];
  readonly #listeners = new Set<HostListener>();
  #peer: JsonRpcPeer | null = null;

  readonly driver: RemoteDriver;

  constructor() {
    const target = aTarget('msi:backend', { host: 'msi', folder: '~/code', conversation: 'first' });
    this.driver = new RemoteDriver(target, new ScriptedDriver(this.client, target), this);
  }

  async peer(): Promise<JsonRpcPeer> {
    this.#peer ??= this.#connect();
    return this.#peer;
  }

  listen(_host: string, hear: HostListener): () => void {
    this.#listeners.add(hear);
    return () => void this.#listeners.delete(hear);
  }

  cut(): void {
    this.#peer?.close();
    this.#peer = null;
  }

  #connect(): JsonRpcPeer {
    const make = (target: SessionTarget): ScriptedDriver => {
      this.opened.push(target);
      return new ScriptedDriver(this.client, target);
    };
    const write = (frame: string): boolean => {
      peer.receive(frame);
      return true;
    };
    const server = new DriveServer({ write, close() {}, cut() {} }, { HOME: '/home/far' }, make);
    const peer: JsonRpcPeer = new JsonRpcPeer((frame) => server.receive(frame), {
      request() {},
      notification: ({ params }) => {
        for (const hear of this.#listeners) hear(String(params['session']));
      },
      broken() {},
    });
    return peer;
  }
}

it('drives a session there by its name without the host, in a folder of that host [CCC-156]', async () => {
  const { driver, client, opened } = new ScriptedHost();
  let changes = 0;
  driver.watch(() => (changes += 1));
  const place = await driver.place();
  expect(await driver.submit({ key: 'k', text: 'hello' }, NEVER)).toEqual({ outcome: 'submitted' });
  expect(await driver.state()).toMatchObject({ status: 'active', pid: client.pid });
  client.answer('re: hello');
  const { events } = await driver.events(place);
  expect(events).toMatchObject([
    { kind: 'prompt', text: 'hello' },
    { kind: 'end', how: 'done', text: 're: hello' },
  ]);
  expect(events.map((event) => driver.isOurs(event, { key: 'k', text: 'hello' }))).toEqual([true, false]);
  expect(await driver.screen(7)).toBe('7 lines of backend');
  expect(changes).toBeGreaterThan(0);
  expect(opened).toMatchObject([{ name: 'backend', host: 'local', folder: '/home/far/code', conversation: 'first' }]);
  await driver.stop();
  expect(await driver.state()).toMatchObject({ status: 'stopped' });
});

it('shows styles, and saves a file there in parts [CCC-98, CCC-196]', async () => {
  const { driver, client } = new ScriptedHost();
  expect(await driver.screen(7, { styles: true })).toBe('7 styled lines of backend');
  const bytes = crypto.getRandomValues(new Uint8Array(60_000));
  const photo = Buffer.concat(Array.from({ length: 20 }, () => bytes));
  expect(await driver.saveFile('photo-1.jpg', photo)).toBe('/home/far/code/photo-1.jpg');
  expect(client.files.get('photo-1.jpg')).toEqual(photo);
  expect(await driver.saveFile('photo-2.jpg', new Uint8Array())).toBe('/home/far/code/photo-2.jpg');
});

it('says there that an attempt came before, and here that the client took it', async () => {
  const { driver, client } = new ScriptedHost();
  const prompt = { key: 'k', text: 'hello' };
  client.attempts.push({ outcome: 'stranded' }, { outcome: 'taken' });
  expect(await driver.submit(prompt, NEVER)).toEqual({ outcome: 'unknown', because: 'it could not be taken back' });
  expect(await driver.submit(prompt, NEVER)).toMatchObject({ outcome: 'left', because: 'somebody types' });
  const again = await driver.submit({ ...prompt, isRetry: true }, NEVER);
  expect(again).toEqual({ outcome: 'unknown', because: 'it said nothing', isTaken: true });
});

it('takes a prompt back there that is taken back here', async () => {
  const { driver, client } = new ScriptedHost();
  await driver.takeBack({ key: 'k', text: 'deploy' });
  expect(client.takenBack).toEqual(['deploy']);
});

it('says a refusal of the host as one of its own', async () => {
  const { driver, client } = new ScriptedHost();
  Object.assign(client, { isRunning: false, startFailure: 'No conversation found' });
  const refused = await driver.start().catch((error: unknown) => error);
  expect(refused).toEqual(new Refusal('unreachable', 'No conversation found'));
  expect(refused).not.toBeInstanceOf(HostUnreachable);
});

it('calls off a prompt there that is called off here', async () => {
  const { driver, client } = new ScriptedHost();
  const [gate, abort] = [Promise.withResolvers<void>(), new AbortController()];
  client.submitGate = gate.promise;
  await driver.state();
  const submitting = driver.submit({ key: 'k', text: 'hello' }, abort.signal);
  await Bun.sleep(0);
  abort.abort();
  gate.resolve();
  expect(await submitting).toMatchObject({ outcome: 'left', retry: true });
  expect(client.typed).toEqual([]);
});

it('does not know what became of a prompt when the connection is lost, and reads it from the next one [CCC-201]', async () => {
  const host = new ScriptedHost();
  const { driver, client, opened } = host;
  const gate = Promise.withResolvers<void>();
  client.submitGate = gate.promise;
  client.conversation = 'second';
  const place = await driver.place();
  await driver.state();
  const submitting = driver.submit({ key: 'k', text: 'hello' }, NEVER);
  await Bun.sleep(0);
  const looking = driver.state().catch((error: unknown) => error);
  await Bun.sleep(0);
  host.cut();
  gate.resolve();
  expect(await submitting).toMatchObject({ outcome: 'unknown' });
  await looking;
  expect((await driver.events(place)).events).toMatchObject([{ kind: 'prompt', text: 'hello' }]);
  expect(opened.map(({ conversation }) => conversation)).toEqual(['first', 'second']);
});
