import { afterEach, describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { closeOpenCodeFiles } from '../../../test/support/opencode-file.ts';
import { StandInOpenCode } from '../../../test/support/opencode-window.ts';
import { within } from '../../../test/support/within.ts';
import type { LiveSession } from '../../core/ports/live-session.ts';
import type { Attempt, Parcel } from '../../core/ports/way-in.ts';
import { aParcel, NEVER, wayContract } from '../../delivery/way.contract.ts';
import { OpenCodeLive } from './live.ts';

const DEADLINE = 20_000;
const SHOWN = { outcome: 'taken', step: 'shown' } as const;
/** An idle session is silent after this, in these tests. */
const SILENT_MS = 4000;

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
  closeOpenCodeFiles();
});

wayContract('by the plugin of OpenCode', async () => {
  const { client, live } = await aWindow();
  const session = await sessionOf(live);
  return {
    way: {
      name: 'plugin',
      async attempt(parcels, signal) {
        const [way] = live.ways(session);
        return way ? way.attempt(parcels, signal) : { outcome: 'left', because: 'no window', retry: true };
      },
    },
    async seen() {
      return client.seen;
    },
    async typed() {
      return '';
    },
    leave: () => client.close(),
    async comeBack() {
      await client.open();
      await sessionOf(live);
    },
    async close() {},
  };
});

describe('a window of OpenCode with our plugin', () => {
  it('is a session with its process, its folder and what it does, in a file that only its user reads', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    const { pid } = process;
    expect(session).toMatchObject({
      client: 'opencode',
      id: 's',
      folder: `${client.home}/project`,
      pid,
      status: 'idle',
    });
    await client.works();
    await becomes(live, 'active');
    await client.asks([{ id: 'per_1' }]);
    await becomes(live, 'waiting');
    const folder = `${client.home}/parley/opencode`;
    const modes = readdirSync(folder).map((name) => statSync(`${folder}/${name}`).mode & 0o077);
    expect([statSync(folder).mode & 0o077, ...modes]).toEqual([0, 0, 0]);
  });

  it('is gone when it is closed, and when its process is not the one that wrote the file', async () => {
    const { client, live } = await aWindow();
    await sessionOf(live);
    const path = `${client.home}/parley/opencode/${process.pid}.json`;
    const file = JSON.parse(readFileSync(path, 'utf8')) as object;
    await client.close();
    expect(await live.list()).toEqual([]);
    writeFileSync(path, JSON.stringify({ ...file, start: '1' }));
    expect(await live.list()).toEqual([]);
    expect(readdirSync(`${client.home}/parley/opencode`)).toEqual([]);
  });

  it('tells when a session changes', async () => {
    const { client, live } = await aWindow();
    await sessionOf(live);
    let changes = 0;
    live.watch(() => (changes += 1));
    const before = changes;
    await client.works();
    await within(DEADLINE, async () => changes > before);
  });

  it('that shows no session is given one when mail comes', async () => {
    const { client, live } = await aWindow(null);
    await within(DEADLINE, async () => (await live.list()).length === 1);
    const [fresh] = await live.list();
    expect(fresh?.id).toStartWith('window-');
    expect(await hand(live, fresh, aParcel())).toMatchObject({ outcome: 'left', retry: true });
    const session = await sessionOf(live);
    expect(session.id).toBe('s');
    expect(client.calls.map(([path]) => path).slice(0, 2)).toEqual(['/session', '/tui/select-session']);
  });

  it('gets mail with the agent and the model that its user chose', async () => {
    const { client, live } = await aWindow();
    client.info = { agent: 'plan', model: { id: 'one', providerID: 'scripted', variant: 'high' } };
    expect(await hand(live, await sessionOf(live), aParcel())).toMatchObject(SHOWN);
    const chosen = { agent: 'plan', model: { providerID: 'scripted', modelID: 'one' }, variant: 'high' };
    expect(client.calls.at(-1)?.[1]).toMatchObject(chosen);
  });
});

describe('mail for a session of OpenCode', () => {
  it('waits while a dialog is open, and answers nothing', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    await client.asks([{ id: 'per_1' }]);
    await becomes(live, 'waiting');
    const attempt = hand(live, session, aParcel());
    await Bun.sleep(300);
    expect(client.calls).toEqual([]);
    await client.asks([]);
    expect(await attempt).toMatchObject(SHOWN);
  });

  it('is not given where the dialog opened after the last look', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    client.permissions = [{ id: 'per_1' }];
    const attempt = hand(live, session, aParcel());
    await becomes(live, 'waiting');
    expect(client.calls).toEqual([]);
    await client.asks([]);
    expect(await attempt).toMatchObject(SHOWN);
  });

  it('that a turn did not read before it ended is answered after that', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    await client.works();
    await becomes(live, 'active');
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await client.took(1);
    await client.rests();
    expect(await attempt).toMatchObject(SHOWN);
    expect(client.calls.map(([, { parts }]) => parts)).toEqual([[expect.objectContaining({ text: parcel.text })], []]);
  });

  it('is not given twice, also if two ask at once', async () => {
    const { client, live } = await aWindow();
    client.holds = true;
    const session = await sessionOf(live);
    const parcel = aParcel();
    const attempts = [hand(live, session, parcel), hand(live, session, parcel)];
    await client.took(1);
    expect(await live.proof(session, parcel.id)).toMatchObject({ step: 'accepted' });
    await client.answers();
    expect(await Promise.all(attempts)).toMatchObject([SHOWN, SHOWN]);
    expect(await hand(live, session, parcel)).toMatchObject(SHOWN);
    expect(client.calls).toHaveLength(1);
  });

  it('is held if OpenCode has it and says nothing, and is over if OpenCode never had it', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    client.holds = true;
    const [had, never] = [aParcel('had'), aParcel('never')];
    const attempt = hand(live, session, had);
    await client.took(1);
    await client.rests();
    await client.took(2);
    await client.rests();
    expect(await attempt).toMatchObject({ outcome: 'offered' });
    expect(await live.proof(session, had.id)).toMatchObject({ step: 'accepted' });
    expect(await live.proof(session, never.id)).toEqual({ step: 'none', isOver: true });
  });

  it.each([
    [400, { outcome: 'left', retry: false }],
    [500, { outcome: 'offered' }],
  ])('says what became of it if OpenCode answers %i', async (status, outcome) => {
    const { client, live } = await aWindow();
    client.refusal = status;
    expect(await hand(live, await sessionOf(live), aParcel())).toMatchObject(outcome);
  });

  it('is for the session that the window shows', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    const [way] = live.ways(session);
    await client.close();
    await client.open('other');
    await within(DEADLINE, async () => (await live.list())[0]?.id === 'other');
    expect(await way?.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(client.calls).toEqual([]);
  });

  it('that asks is alone in its turn, and its turn has the answer', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    const parcels = ['one', 'two'].map((text) => ({ ...aParcel(text), ownTurn: true }));
    expect(await hand(live, session, ...parcels)).toMatchObject(SHOWN);
    for (const { id } of parcels)
      expect(await live.proof(session, id)).toMatchObject({ turn: { end: { how: 'done', text: 'an answer' } } });
    expect(client.calls).toHaveLength(2);
  });
});

async function aWindow(session: string | null = 's') {
  const client = new StandInOpenCode(temporaryHome());
  const live = new OpenCodeLive(client.env, SILENT_MS);
  ends.push(
    () => live.close(),
    () => client.close(),
  );
  await client.open(session);
  return { client, live };
}

async function sessionOf(live: OpenCodeLive): Promise<LiveSession> {
  const find = async (): Promise<LiveSession | undefined> => (await live.list()).find(({ id }) => id === 's');
  await within(DEADLINE, async () => (await find()) !== undefined);
  return (await find()) as LiveSession;
}

function hand(live: OpenCodeLive, session: LiveSession | undefined, ...parcels: Parcel[]): Promise<Attempt> {
  const [way] = session ? live.ways(session) : [];
  if (!way) throw new Error('no way');
  return way.attempt(parcels, NEVER);
}

async function becomes(live: OpenCodeLive, status: LiveSession['status']): Promise<void> {
  await within(DEADLINE, async () => (await live.list())[0]?.status === status);
}
