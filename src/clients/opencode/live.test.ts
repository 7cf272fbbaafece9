import { afterEach, describe, expect, it, spyOn } from 'bun:test';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { closeOpenCodeFiles } from '../../../test/support/opencode-file.ts';
import { StandInOpenCode } from '../../../test/support/opencode-window.ts';
import { within } from '../../../test/support/within.ts';
import type { LiveSession } from '../../core/ports/live-session.ts';
import type { Attempt, Parcel } from '../../core/ports/way-in.ts';
import { aParcel, NEVER, wayContract } from '../../delivery/way.contract.ts';
import { startOf } from '../../platform/process.ts';
import { OpenCodeLive } from './live.ts';
import { endingOf } from './record.ts';
import { callWindow, openCodeWindows, windowApi } from './window.ts';

const DEADLINE = 20_000;
const SHOWN = { outcome: 'taken', step: 'shown' } as const;
/** The `silentMs` of these tests. */
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
  it('is a session with its process, folder and status, in a file that only its user can read', async () => {
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

  it('is not listed after it was closed, or if its process is not the one that wrote the file', async () => {
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

  it('waits after a compaction for owed mail, and adds it to each request that does not have it', async () => {
    const { client, live } = await aWindow();
    await sessionOf(live);
    writeFileSync(`${client.home}/parley/daemon.json`, '{}');
    const [gone, kept] = [aParcel('gone'), aParcel('kept')];
    const messages = [
      { id: 'msg_000000000001compaction0000', parts: [{ type: 'compaction' }] },
      { id: 'msg_2', parts: [{ text: 'summary' }], summary: true as const, parentID: 'msg_000000000001compaction0000' },
      { id: `msg_3${endingOf(kept.id)}`, parts: [{ text: kept.text }] },
      { id: 'msg_4', parts: [{ text: 'go on' }] },
    ];
    const request = client.request(messages);
    await within(DEADLINE, async () => (await live.list())[0]?.compaction !== undefined);
    const [session] = await live.list();
    await live.showAgain(session as LiveSession, [gone, kept]);
    const expected = ['compaction', 'summary', gone.text, kept.text, 'go on'];
    expect(await request).toEqual(expected);
    expect(await client.request(messages)).toEqual(expected);
    expect((await live.list())[0]?.compaction).toBeUndefined();
  });

  it('is not asked again at each look if it did not answer, because all other sessions would wait too', async () => {
    const { client, live } = await aWindow();
    const session = { ...(await sessionOf(live)), compaction: 'msg_1' };
    const path = `${client.home}/parley/opencode/${process.pid}.json`;
    let asked = 0;
    const stopped = Bun.listen({
      unix: `${client.home}/stopped`,
      socket: { open: () => void (asked += 1), data() {} },
    });
    const file = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...file, socket: `${client.home}/stopped` }));
    for (let looks = 0; looks < 2; looks += 1)
      await expect(live.showAgain(session, [])).rejects.toThrow('OpenCode did not answer');
    expect(await live.proof(session, aParcel().id)).toEqual({ step: 'none', isOver: false });
    expect(asked).toBe(1);
    stopped.stop(true);
  });

  it('without a session gets one when mail comes', async () => {
    const { client, live } = await aWindow(null);
    await within(DEADLINE, async () => (await live.list()).length === 1);
    const [fresh] = await live.list();
    expect(fresh?.id).toStartWith('window-');
    expect(await hand(live, fresh, aParcel())).toEqual({
      outcome: 'left',
      retry: true,
      because: 'nothing was handed over yet: OpenCode begins a session for it',
    });
    const session = await sessionOf(live);
    expect(session.id).toBe('s');
    expect(client.calls.map(([path]) => path).slice(0, 2)).toEqual(['/session', '/tui/select-session']);
  });

  it('gets only one session if two callers ask at once', async () => {
    const { client, live } = await aWindow(null);
    const answer = Promise.withResolvers<number>();
    client.begins = answer.promise;
    await within(DEADLINE, async () => (await live.list()).length === 1);
    const [fresh] = await live.list();
    const attempts = [hand(live, fresh, aParcel()), hand(live, fresh, aParcel())];
    const begun = () => client.calls.filter(([path]) => path === '/session').length;
    await within(DEADLINE, async () => begun() > 0);
    await Bun.sleep(300);
    answer.resolve(200);
    expect(await Promise.all(attempts)).toMatchObject([{ outcome: 'left' }, { outcome: 'left' }]);
    expect(begun()).toBe(1);
  });

  it('is not reported as begun if OpenCode begins no session', async () => {
    const { client, live } = await aWindow(null);
    client.begins = Promise.resolve(500);
    await within(DEADLINE, async () => (await live.list()).length === 1);
    const [fresh] = await live.list();
    const because = expect.stringContaining('began no session');
    expect(await hand(live, fresh, aParcel())).toEqual({ outcome: 'left', retry: true, because });
    expect((await live.list())[0]?.id).toBe(fresh?.id ?? '');
  });

  it('is not asked to show the session again after it has drawn, because its user may have chosen another', async () => {
    const uptime = spyOn(process, 'uptime').mockReturnValue(2);
    ends.push(async () => uptime.mockRestore());
    const { client, live } = await aWindow(null);
    await within(DEADLINE, async () => (await live.list()).length === 1);
    const [fresh] = await live.list();
    await hand(live, fresh, aParcel());
    const told = () => client.calls.filter(([path]) => path === '/tui/select-session').length;
    await within(DEADLINE, async () => told() > 1);
    uptime.mockReturnValue(9);
    const before = told();
    await Bun.sleep(3500);
    expect(told()).toBeLessThanOrEqual(before + 1);
  });

  it('that does not answer is asked once, and not for each message', async () => {
    const home = temporaryHome();
    mkdirSync(`${home}/parley/opencode`, { recursive: true });
    let asked = 0;
    const socket = `${home}/s`;
    const deaf = Bun.listen({ unix: socket, socket: { open: () => void (asked += 1), data() {} } });
    ends.push(async () => deaf.stop(true));
    const { pid } = process;
    const window = { v: 1, pid, start: startOf(pid), folder: home, socket, data: home, session: 's', isBusy: false };
    writeFileSync(`${home}/parley/opencode/${pid}.json`, JSON.stringify({ ...window, asks: null }));
    const live = new OpenCodeLive({ HOME: home, PARLEY_HOME: `${home}/parley` });
    ends.push(() => live.close());
    const session = await sessionOf(live);
    for (let n = 0; n < 5; n += 1)
      expect(await live.proof(session, aParcel().id)).toEqual({ step: 'none', isOver: false });
    expect(asked).toBe(1);
  });

  it.each([
    ['a link', (path: string) => symlinkSync(temporaryHome(), path)],
    ['open to others', (path: string) => (mkdirSync(path), chmodSync(path, 0o770))],
  ])('serves nothing where the folder for its socket is %s', async (_title, make) => {
    const client = new StandInOpenCode(longHome());
    const runtime = temporaryHome();
    Object.assign(client.env, { XDG_RUNTIME_DIR: runtime });
    const live = new OpenCodeLive(client.env);
    ends.push(
      () => live.close(),
      () => client.close(),
    );
    make(`${runtime}/parley-${process.getuid?.()}`);
    await client.open();
    expect([existsSync(`${client.home}/parley/opencode`), await live.list()]).toEqual([false, []]);
    rmSync(`${runtime}/parley-${process.getuid?.()}`, { recursive: true });
    await client.open();
    expect((await sessionOf(live)).id).toBe('s');
  });

  it.each([
    [undefined, 403],
    [false, 403],
    [true, 200],
  ])('passes on an answer to a permission only if its user says so (%p)', async (value, status) => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    if (value !== undefined) writeFileSync(`${client.home}/.ccc.json`, JSON.stringify({ control_may_approve: value }));
    await client.asks([{ id: 'per_1' }]);
    const [window] = openCodeWindows(`${client.home}/parley`);
    if (!window) throw new Error(`no window for ${session.id}`);
    const said = await callWindow(window, '/permission/per_1/reply', { body: { reply: 'always' } });
    expect([said.status, client.calls.length]).toEqual([status, status === 200 ? 1 : 0]);
    const api = windowApi(window).post('/permission/per_1/reply', { reply: 'always' });
    if (status === 403) await expect(api).rejects.toThrow(/control_may_approve/);
    expect((await callWindow(window, '/question/que_1/reply', { body: { answers: [] } })).status).toBe(200);
    await api.catch(() => {});
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

  it('is not given if a dialog opened after the last look', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    client.permissions = [{ id: 'per_1' }];
    const attempt = hand(live, session, aParcel());
    await becomes(live, 'waiting');
    expect(client.calls).toEqual([]);
    await client.asks([]);
    expect(await attempt).toMatchObject(SHOWN);
  });

  it('is answered later if a turn ended before the model was given it', async () => {
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

  it('is not given twice, even if two callers ask at once', async () => {
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

  it('stays held if OpenCode was given it and has not recorded it, and is over if OpenCode never got it', async () => {
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

  it('is given once more if a summary replaced it before the model had it, even if two callers ask at once', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    client.holds = true;
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await client.took(1);
    await becomes(live, 'active');
    await nextMs();
    await client.sumsUp();
    expect(await attempt).toMatchObject({ outcome: 'offered' });
    expect(await live.proof(session, parcel.id)).toEqual({ step: 'none', isOver: true });
    await nextMs();
    const again = [hand(live, session, parcel), hand(live, session, parcel)];
    await client.took(2);
    await client.answers();
    expect(await Promise.all(again)).toMatchObject([SHOWN, SHOWN]);
    expect(client.calls).toHaveLength(2);
  });

  it('is not over while a turn runs that a summary interrupted', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    client.holds = true;
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await client.took(1);
    await nextMs();
    await client.sumsUp();
    await client.works();
    await becomes(live, 'active');
    expect(await live.proof(session, parcel.id)).toEqual({ step: 'none', isOver: false });
    await client.rests();
    await attempt;
  });

  it.each([
    ['answered 500', (client: StandInOpenCode, is: boolean) => (client.refusal = is ? 500 : null)],
    ['took it and lost it', (client: StandInOpenCode, is: boolean) => (client.loses = is)],
  ])('is over if OpenCode %s, once that is idle and its record lacks it, and is given again', async (_title, fails) => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    fails(client, true);
    const parcel = aParcel();
    await client.works();
    const attempt = hand(live, session, parcel);
    await client.took(1);
    expect(await live.proof(session, parcel.id)).toEqual({ step: 'none', isOver: false });
    await client.rests();
    expect(await attempt).toMatchObject({ outcome: 'offered' });
    const isOver = async (): Promise<boolean> => {
      const proof = await live.proof(session, parcel.id);
      return proof.step === 'none' && proof.isOver;
    };
    await within(DEADLINE, isOver);
    fails(client, false);
    expect(await hand(live, session, parcel)).toMatchObject(SHOWN);
    // With the same id, even a late first call makes no second message.
    const [first, second] = client.calls.map(([, { messageID }]) => messageID);
    expect([client.calls.length, second]).toEqual([2, first]);
  });

  it('is neither proven nor over nor given while the record cannot be read', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    const parcel = aParcel();
    client.file.db.run('ALTER TABLE message RENAME TO renamed');
    expect(await live.proof(session, parcel.id)).toEqual({ step: 'none', isOver: false });
    expect(await hand(live, session, parcel)).toMatchObject({ outcome: 'left', retry: true });
    expect(client.calls).toEqual([]);
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

  it('is alone in its turn if it is a question, and the turn has its answer', async () => {
    const { client, live } = await aWindow();
    const session = await sessionOf(live);
    const parcels = ['one', 'two'].map((text) => ({ ...aParcel(text), ownTurn: true }));
    expect(await hand(live, session, ...parcels)).toMatchObject(SHOWN);
    for (const { id } of parcels)
      expect(await live.proof(session, id)).toMatchObject({ turn: { end: { how: 'done', text: 'an answer' } } });
    expect(client.calls).toHaveLength(2);
  });
});

/** A home in which the path of a socket would be too long. */
function longHome(): string {
  const home = `${temporaryHome()}/${'long'.repeat(20)}`;
  mkdirSync(home);
  return home;
}

/** Ids of messages grow with each millisecond. */
async function nextMs(): Promise<void> {
  const now = Date.now();
  while (Date.now() <= now + 1) await Bun.sleep(1);
}

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
