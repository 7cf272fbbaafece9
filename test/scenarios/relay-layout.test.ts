import { afterAll, beforeAll, describe, expect, it } from 'bun:test';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../support/home.ts';
import { OriginalClient } from '../support/original-client.ts';
import { RelayProcess } from '../support/relay-process.ts';

const hash = (token: string): string => createHash('sha256').update(token).digest('hex');
const started: RelayProcess[] = [];

async function relayOn(home: string, ...flags: string[]): Promise<RelayProcess> {
  const relay = await new RelayProcess(home, flags).start();
  started.push(relay);
  return relay;
}

afterAll(async () => {
  for (const relay of started) {
    relay.kill('SIGTERM');
    await relay.ended;
  }
});

describe('on the disk of a relay', () => {
  let relay: RelayProcess;
  beforeAll(async () => {
    relay = await relayOn(temporaryHome());
  });

  it('a record is indented by two, has the four fields and the hash of its token, and is for its owner only [BC-B3.5, BC-B3.10, BC-C12]', async () => {
    const ann = new OriginalClient(relay.url, 'ann');
    await ann.register();
    const text = readFileSync(`${relay.home}/agents/ann.json`, 'utf8');
    const record = JSON.parse(text) as Record<string, unknown>;
    expect(text).toBe(JSON.stringify(record, null, 2));
    expect(Object.keys(record)).toEqual(['name', 'subscriptions', 'createdAt', 'lastSeen', 'tokenHash']);
    expect(record['tokenHash']).toBe(hash(ann.token));
    expect(statSync(`${relay.home}/agents/ann.json`).mode & 0o777).toBe(0o600);
  });

  it('a new room has a folder, a hash and a date of its own, and its agents and mail stay in it [BC-B3.12, BC-B3.14, BC-B5.21, BC-C12]', async () => {
    const { roomId, roomToken } = await relay.as('').ask<{ roomId: string; roomToken: string }>('rooms', {});
    const folder = `${relay.home}/rooms/${roomId}`;
    const room = JSON.parse(readFileSync(`${folder}/room.json`, 'utf8')) as Record<string, string>;
    expect(room).toEqual({ tokenHash: hash(roomToken), createdAt: expect.any(String) });
    expect(statSync(`${folder}/room.json`).mode & 0o777).toBe(0o600);
    expect(new Date(room['createdAt'] ?? '').toISOString()).toBe(room['createdAt'] ?? '');
    const [bea, cem] = [new OriginalClient(relay.url, 'bea', roomId), new OriginalClient(relay.url, 'cem', roomId)];
    await bea.register(roomToken);
    await cem.register(roomToken);
    const { id } = await bea.send('@cem', 'in our room');
    expect(readdirSync(`${folder}/agents`).toSorted()).toEqual(['bea.json', 'cem.json']);
    expect(existsSync(`${relay.home}/agents/bea.json`)).toBe(false);
    while (!existsSync(`${folder}/spool/cem/new/${id}.json`)) await new Promise((resolve) => setTimeout(resolve, 5));
    // The token of one room opens no other.
    const elsewhere = new OriginalClient(relay.url, 'cem');
    elsewhere.token = cem.token;
    await expect(elsewhere.inbox()).rejects.toThrow('unauthorized');
  });
});

describe('a home that was made before', () => {
  const now = '2026-06-12T12:00:00.000Z';
  const letter = { id: 'old-1', from: 'dov', to: '@eve', body: 'from before', priority: 'normal', ts: now };

  function furnish(root: string): void {
    mkdirSync(`${root}/agents`, { recursive: true });
    mkdirSync(`${root}/spool/eve/new`, { recursive: true });
    const record = { name: 'eve', subscriptions: [], createdAt: now, lastSeen: now, tokenHash: hash('eves-token') };
    writeFileSync(`${root}/agents/eve.json`, JSON.stringify(record, null, 2));
    writeFileSync(`${root}/spool/eve/new/old-1.json`, JSON.stringify(letter));
  }

  it.each([
    ['with agents/ and spool/ directly in it is served as the default room [BC-B3.13]', ''],
    ['with rooms/default/, which needs no room.json, is served from there [BC-B3.12]', '/rooms/default'],
  ])('%s', async (_sentence, folder) => {
    const home = temporaryHome();
    furnish(`${home}${folder}`);
    const eve = new OriginalClient((await relayOn(home)).url, 'eve');
    eve.token = 'eves-token';
    expect(await eve.inbox()).toMatchObject([letter]);
    expect((await eve.take('old-1'))?.body).toBe('from before');
    expect(readdirSync(`${home}${folder}/spool/eve/new`)).toEqual([]);
  });

  it('with a rooms/default/ in which nobody is goes on serving those who have joined in the home itself [BC-B3.13]', async () => {
    const home = temporaryHome();
    furnish(home);
    mkdirSync(`${home}/rooms/default/agents`, { recursive: true });
    const eve = new OriginalClient((await relayOn(home)).url, 'eve');
    eve.token = 'eves-token';
    expect(await eve.inbox()).toMatchObject([letter]);
  });
});
