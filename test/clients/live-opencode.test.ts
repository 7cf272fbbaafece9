// Mail for running sessions of the real OpenCode: it is in a request to the model, once, and OpenCode's own record proves it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { OpenCodeLive } from '../../src/clients/opencode/live.ts';
import { parleyPluginText } from '../../src/clients/opencode/plugin.ts';
import type { LiveSession } from '../../src/core/ports/live-session.ts';
import type { Attempt, Parcel } from '../../src/core/ports/way-in.ts';
import { aParcel, NEVER } from '../../src/delivery/way.contract.ts';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { call, gate, refuse, say } from './model/steps.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { opencode } from './support/reached-opencode.ts';
import { aMachine } from './support/reached.ts';
import { endAll } from './support/processes.ts';
import { aTerminal } from './support/terminal.ts';
import type { Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('opencode');
const DEADLINE = 200_000;
const SHOWN = { outcome: 'taken', step: 'shown' } as const;
afterEach(closeAll);

describe(`mail for a running OpenCode${real.why}`, () => {
  real.it('that shows no session yet begins one there, and leaves a draft as it is', async () => {
    const { model, live, terminal } = await aWindow(say('hello back'), say('hello again'));
    const [fresh] = await live.list();
    expect([fresh?.client, fresh?.status, fresh?.pid]).toEqual(['opencode', 'idle', terminal.pid]);
    expect(fresh?.id).toStartWith('window-');
    await terminal.type('half a thought');
    await terminal.shows('half a thought');
    expect(await hand(live, fresh, aParcel())).toMatchObject({ outcome: 'left', retry: true });
    const session = await sessionOf(live);
    expect(session.pid).toBe(terminal.pid);
    for (const text of ['first', 'second']) {
      const parcel = aParcel(text);
      expect(await hand(live, session, parcel)).toMatchObject({ ...SHOWN, evidence: { id: parcel.id } });
      expect(model.last.count(parcel.text)).toBe(1);
      await within(DEADLINE, async () => {
        const proof = await live.proof(session, parcel.id);
        return proof.step === 'shown' && proof.turn?.end?.how === 'done';
      });
      await becomes(live, session, 'idle');
    }
    const screen = await terminal.shows('hello again');
    expect(screen).toContain('half a thought');
    expect(model.last.has('half a thought')).toBe(false);
    expect(model.main).toHaveLength(2);
  });

  real.it('that works comes after the running tool, before the next request', async () => {
    const { model, live, place, terminal } = await aWindow(tool(), say('done'));
    const session = await working(live, terminal);
    const parcels = Array.from({ length: 15 }, (_, n) => aParcel(`number ${n}`));
    const attempt = hand(live, session, ...parcels);
    await within(
      DEADLINE,
      async () => (await live.proof(session, parcels[14]?.id as Parcel['id'])).step === 'accepted',
    );
    expect(model.main).toHaveLength(1);
    writeFileSync(`${place.project}/go`, '');
    expect(await attempt).toMatchObject(SHOWN);
    expect(parcels.map(({ text }) => model.main[1]?.count(text))).toEqual(parcels.map(() => 1));
    const places = parcels.map(({ id }) => model.main[1]?.text.indexOf(id) ?? -1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  real.it('comes once each, also if 15 are sent at once', async () => {
    const { model, live } = await aWindow(...Array.from({ length: 15 }, (_, n) => say(`answer ${n}`)));
    const session = await begun(live);
    const parcels = Array.from({ length: 15 }, (_, n) => aParcel(`number ${n}`));
    const said = await Promise.all(parcels.map((parcel) => hand(live, session, parcel)));
    expect(said).toMatchObject(parcels.map(() => SHOWN));
    expect(parcels.map(({ text }) => model.last.count(text))).toEqual(parcels.map(() => 1));
  });

  real.it('that asks gets a turn of its own, whose last words are the answer', async () => {
    const { model, live } = await aWindow(say('answer 1'), say('answer 2'), say('answer 3'));
    const session = await begun(live);
    const parcels = ['apples', 'bananas', 'cherries'].map((text) => ({ ...aParcel(text), ownTurn: true }));
    expect(await hand(live, session, ...parcels)).toMatchObject(SHOWN);
    await becomes(live, session, 'idle');
    for (const { id } of parcels) {
      const nth = model.main.findIndex((request) => request.has(id)) + 1;
      const end = { how: 'done', text: `answer ${nth}` };
      expect(await live.proof(session, id)).toMatchObject({ step: 'shown', turn: { end } });
    }
  });

  real.it.each([
    ['yes', 'Enter'],
    ['no', 'Escape'],
  ])('waits for an open dialog, approves nothing, and comes after the user says %s', async (word, key) => {
    const settings = { permission: { bash: 'ask' } };
    const steps = [call('bash', { command: 'touch approved', description: 'touches' }), say('after'), say('end')];
    const { model, live, place, terminal } = await aWindow({ settings }, ...steps);
    await terminal.submit('touch it');
    const session = await sessionOf(live);
    await becomes(live, session, 'waiting');
    const dialog = await terminal.drawn('Permission required');
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await Bun.sleep(1000);
    expect([existsSync(`${place.project}/approved`), model.main.length]).toEqual([false, 1]);
    expect(await terminal.screen()).toBe(dialog);
    await terminal.keys(key);
    expect(await attempt).toMatchObject(SHOWN);
    expect(existsSync(`${place.project}/approved`)).toBe(word === 'yes');
    expect(model.last.count(parcel.text)).toBe(1);
  });

  real.it('that its user stops OpenCode before comes after that, once', async () => {
    const { model, live, terminal } = await aWindow(tool(), say('after'));
    const session = await working(live, terminal);
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await within(DEADLINE, async () => (await live.proof(session, parcel.id)).step === 'accepted');
    await terminal.keys('Escape');
    await terminal.shows('again to interrupt');
    await terminal.keys('Escape');
    expect(await attempt).toMatchObject(SHOWN);
    expect(model.main).toHaveLength(2);
    expect(model.last.count(parcel.text)).toBe(1);
  });

  real.it('is not claimed as shown if its window is killed, and comes once when the session is resumed', async () => {
    const { model, live, code, terminal } = await aWindow(say('first'), say('never', gate().opened), say('back again'));
    const session = await begun(live);
    expect(await hand(live, session, aParcel())).toMatchObject(SHOWN);
    await becomes(live, session, 'idle');
    const parcel = aParcel('lost');
    const attempt = hand(live, session, parcel);
    await model.saw(parcel.id);
    expect(await live.proof(session, parcel.id)).toMatchObject({ step: 'accepted' });
    await endAll([session.pid ?? 0]);
    expect((await attempt).outcome).toBe('offered');
    expect(await live.list()).toEqual([]);
    expect(await live.proof(session, parcel.id)).toEqual({ step: 'none', isOver: true });
    await terminal.close();
    await code.terminal(['-s', session.id]);
    const again = await sessionOf(live);
    expect(again.id).toBe(session.id);
    expect(await hand(live, again, parcel)).toMatchObject(SHOWN);
    expect(model.last.count(parcel.text)).toBe(1);
  });

  real.it('comes by the plugin of `parley install`, which needs no network, and leaves nothing behind', async () => {
    const model = opens(aModel([say('hello back')]));
    const place = await aPlace();
    // OpenCode itself adds the address of its schema where it is missing.
    const settings = { $schema: 'https://opencode.ai/config.json' };
    const code = anOpenCode({ place, model, settings, hasPackage: false });
    const file = `${code.config}/opencode.json`;
    const untouched = readFileSync(file, 'utf8');
    const parley = new Program(place.home, { TMPDIR: place.env['TMPDIR'] ?? '' });
    const before = readdirSync(code.config);
    expect((await parley.run(['install', 'opencode'], { cwd: place.project })).code).toBe(0);
    const lock = readFileSync(`${code.config}/package-lock.json`, 'utf8');
    const live = opens(new OpenCodeLive(code.env));
    const terminal = await code.terminal();
    expect(await hand(live, await begun(live), aParcel('by the plugin'))).toMatchObject(SHOWN);
    expect(model.last.has('by the plugin')).toBe(true);
    await terminal.close();
    // OpenCode would have replaced it if it had fetched anything.
    expect(readFileSync(`${code.config}/package-lock.json`, 'utf8')).toBe(lock);
    expect((await parley.run(['install', '--uninstall', 'opencode'], { cwd: place.project })).code).toBe(0);
    // OpenCode itself writes this one.
    expect(readdirSync(code.config).filter((name) => name !== '.gitignore')).toEqual(before);
    expect(readFileSync(file, 'utf8')).toBe(untouched);
  });

  real.it('for `opencode serve` goes to the session that was prompted last in its folder', async () => {
    const { model, live, code } = await aHome(say('one'), say('two'), say('read'));
    const server = await code.serve([], ['--log-level', 'ERROR']);
    const [first, second] = [await server.session(), await server.session()];
    expect(await live.list()).toEqual([]);
    for (const session of [first, second]) {
      await session.prompt(`hello ${session.id}`);
      await session.idle();
    }
    await within(DEADLINE, async () => (await live.list())[0]?.id === second.id);
    const parcel = aParcel();
    expect(await hand(live, await sessionOf(live), parcel)).toMatchObject(SHOWN);
    const asked = [parcel.text, `hello ${second.id}`, `hello ${first.id}`].map((text) => model.last.count(text));
    expect(asked).toEqual([1, 1, 0]);
  });

  real.it('for `opencode run` comes after the running tool, before the next request', async () => {
    const { model, live, place, code } = await aHome(tool(), say('done'));
    const run = code.run('work');
    const session = await sessionOf(live);
    await model.request(1);
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await within(DEADLINE, async () => (await live.proof(session, parcel.id)).step === 'accepted');
    writeFileSync(`${place.project}/go`, '');
    expect(await attempt).toMatchObject({ evidence: { session: session.id } });
    expect(await run).toMatchObject({ code: 0, out: expect.stringContaining('done') });
    expect(model.main.map((request) => request.count(parcel.text))).toEqual([0, 1]);
    expect(await live.proof(session, parcel.id)).toMatchObject({ step: 'shown' });
  });

  real.it('is called shown only when the model answers, which OpenCode asks again after a refusal', async () => {
    const machine = await aMachine(opencode, { steps: [refuse(), refuse()] });
    await machine.run();
    await machine.until(await machine.send('it is red'), 'shown');
    expect([machine.model.left, machine.model.main.length]).toEqual([0, 3]);
    expect(machine.model.last.count('it is red')).toBe(1);
  });

  real.it('wakes one that its user started after `parley install`, by its name and by that of its client', async () => {
    const machine = await aMachine(opencode, { steps: [say('hello back'), say('hello again')] });
    await machine.parley('install', 'opencode');
    const { env } = machine.prepared;
    await machine.prepared.ready(await aTerminal(machine.place, [real.program], { env }));
    await within(DEADLINE, async () => (await machine.parley('agents')).includes('@opencode.project'));
    await machine.until(await machine.send('by name'), 'shown');
    await machine.parley('send', '@opencode', 'by client', '--as', 'me');
    expect((await machine.model.saw('by client')).count('by name')).toBe(1);
  });
});

interface WindowOptions {
  settings?: Record<string, unknown>;
}

type Steps = Parameters<Model['script']>;

/** A window of OpenCode that a person opened, at its prompt. */
async function aWindow(first?: WindowOptions | Steps[0], ...rest: Steps) {
  const all = await aHome(first, ...rest);
  const terminal = await all.code.terminal();
  await within(DEADLINE, async () => (await all.live.list()).length === 1);
  return { ...all, terminal };
}

/** An OpenCode that has our plugin, and does not run yet. */
async function aHome(first?: WindowOptions | Steps[0], ...rest: Steps) {
  const options: WindowOptions = first && 'settings' in first ? first : {};
  const model = opens(aModel(first && options !== first ? [first as Steps[0], ...rest] : rest));
  const place = await aPlace();
  const code = anOpenCode({ place, model, ...options });
  mkdirSync(`${code.config}/plugins`);
  writeFileSync(`${code.config}/plugins/parley.ts`, parleyPluginText());
  return { model, place, code, live: opens(new OpenCodeLive(code.env)) };
}

/** A session that mail began. */
async function begun(live: OpenCodeLive): Promise<LiveSession> {
  await within(DEADLINE, async () => (await live.list()).length === 1);
  const [fresh] = await live.list();
  await hand(live, fresh, aParcel());
  return sessionOf(live);
}

async function sessionOf(live: OpenCodeLive): Promise<LiveSession> {
  const find = async (): Promise<LiveSession | undefined> =>
    (await live.list()).find(({ id }) => id.startsWith('ses_'));
  await within(DEADLINE, async () => (await find()) !== undefined);
  return (await find()) as LiveSession;
}

/** A tool call that runs until the test says so. */
function tool(): Steps[0] {
  return call('bash', { command: 'while [ ! -e go ]; do sleep 0.05; done', description: 'waits' });
}

async function working(live: OpenCodeLive, terminal: Terminal): Promise<LiveSession> {
  await terminal.submit('work');
  await terminal.shows(/while \[/);
  const session = await sessionOf(live);
  await becomes(live, session, 'active');
  return session;
}

function hand(live: OpenCodeLive, session: LiveSession | undefined, ...parcels: Parcel[]): Promise<Attempt> {
  const [way] = session ? live.ways(session) : [];
  if (!way) throw new Error('no way');
  return way.attempt(parcels, NEVER);
}

async function becomes(live: OpenCodeLive, { id }: LiveSession, status: LiveSession['status']): Promise<void> {
  await within(DEADLINE, async () => (await live.list()).find((one) => one.id === id)?.status === status);
}
