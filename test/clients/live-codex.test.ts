// Mail for running sessions of the real Codex: it is in a request to the model, once, and Codex's own record proves it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { CodexLive } from '../../src/clients/codex/live.ts';
import { CodexDaemon, codexHome } from '../../src/clients/codex/rpc.ts';
import type { LiveSession } from '../../src/core/ports/live-session.ts';
import type { Attempt, Parcel } from '../../src/core/ports/way-in.ts';
import { aParcel, NEVER } from '../../src/delivery/way.contract.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { call, gate, refuse, say } from './model/steps.ts';
import { aCodex } from './support/codex.ts';
import type { Codex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import type { Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('codex');
const DEADLINE = 200_000;
const SHOWN = { outcome: 'taken', step: 'shown' } as const;
afterEach(closeAll);

describe(`mail for a running Codex${real.why}`, () => {
  real.it('that never had a prompt begins its first turn, and one that is idle its next', async () => {
    const { model, live, session, terminal } = await aWindow(say('hello back'), say('hello again'));
    expect(session).toMatchObject({ client: 'codex', status: 'idle', pid: expect.any(Number) });
    for (const text of ['first', 'second']) {
      const parcel = aParcel(text);
      const since = Date.now();
      expect(await hand(live, session, parcel)).toMatchObject({ ...SHOWN, evidence: { id: parcel.id } });
      expect(model.last.count(parcel.text)).toBe(1);
      await within(DEADLINE, async () => {
        const proof = await live.proof(session, parcel.id, since);
        return proof.step === 'shown' && proof.turn?.end?.how === 'done';
      });
      await becomes(live, session, 'idle');
    }
    await terminal.shows('hello again');
    expect(model.main).toHaveLength(2);
  });

  real.it(
    'stays with Codex, with the reason, where its model refuses to answer, and is shown by the next turn',
    async () => {
      const { model, live, session, terminal } = await aWindow(refuse(429), say('now'));
      const since = Date.now();
      const parcel = aParcel();
      expect(await hand(live, session, parcel)).toMatchObject({ outcome: 'offered' });
      const trouble = expect.stringMatching(/\S/);
      expect(await live.proof(session, parcel.id, since)).toMatchObject({ step: 'accepted', trouble });
      await terminal.submit('go on');
      expect((await model.request(2)).count(parcel.text)).toBe(1);
      await within(DEADLINE, async () => (await live.proof(session, parcel.id, since)).step === 'shown');
    },
  );

  real.it('leaves a draft in the composer as it is', async () => {
    const { model, live, session, terminal } = await aWindow(say('hello back'));
    await terminal.type('half a thought');
    await terminal.shows('› half a thought');
    expect(await hand(live, session, aParcel())).toMatchObject(SHOWN);
    const screen = await terminal.shows('hello back');
    expect(screen).toContain('› half a thought');
    expect(model.last.has('half a thought')).toBe(false);
  });

  real.it('that works comes after the running tool, before the next request', async () => {
    const { model, live, session, place, code, terminal } = await aWindow(tool(), say('done'));
    await working(model, live, session, terminal);
    const parcels = Array.from({ length: 15 }, (_, n) => aParcel(`number ${n}`));
    const attempt = hand(live, session, ...parcels);
    await accepted(code, 15);
    expect(model.main).toHaveLength(1);
    writeFileSync(`${place.project}/go`, '');
    expect(await attempt).toMatchObject(SHOWN);
    expect(parcels.map(({ text }) => model.main[1]?.count(text))).toEqual(parcels.map(() => 1));
    const places = parcels.map(({ id }) => model.main[1]?.text.indexOf(id) ?? -1);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  real.it('comes once each, also if 15 are sent at once', async () => {
    const { model, live, session } = await aWindow(...Array.from({ length: 15 }, (_, n) => say(`answer ${n}`)));
    const parcels = Array.from({ length: 15 }, (_, n) => aParcel(`number ${n}`));
    const said = await Promise.all(parcels.map((parcel) => hand(live, session, parcel)));
    expect(said).toMatchObject(parcels.map(() => SHOWN));
    expect(parcels.map(({ text }) => model.last.count(text))).toEqual(parcels.map(() => 1));
  });

  real.it('that asks gets a turn of its own, whose last words are the answer', async () => {
    const { model, live, session } = await aWindow(say('answer 1'), say('answer 2'), say('answer 3'));
    const parcels = ['apples', 'bananas', 'cherries'].map((text) => ({ ...aParcel(text), ownTurn: true }));
    const since = Date.now();
    expect(await hand(live, session, ...parcels)).toMatchObject(SHOWN);
    await becomes(live, session, 'idle');
    for (const { id } of parcels) {
      const nth = model.main.findIndex((request) => request.has(id)) + 1;
      const end = { how: 'done', text: `answer ${nth}` };
      expect(await live.proof(session, id, since)).toMatchObject({ step: 'shown', turn: { end } });
    }
  });

  real.it.each([
    ['yes', 'y'],
    ['no', 'Escape'],
  ])('waits for an open dialog, approves nothing, and comes after the user says %s', async (word, key) => {
    const steps = [
      call('exec_command', { cmd: 'touch approved', sandbox_permissions: 'require_escalated' }),
      say('after'),
    ];
    const { model, live, session, place, terminal } = await aWindow({ asks: true }, ...steps, say('end'));
    await terminal.submit('touch it');
    await becomes(live, session, 'waiting');
    const dialog = await terminal.drawn('Would you like to run');
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

  real.it('that Codex forgets when its user interrupts it waits again, and comes once', async () => {
    const { model, live, session, code, terminal } = await aWindow(tool(), say('after'));
    await working(model, live, session, terminal);
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await accepted(code, 1);
    await terminal.keys('Escape');
    expect(await attempt).toMatchObject({ outcome: 'left', retry: true });
    expect(model.main.some((request) => request.has(parcel.id))).toBe(false);
    expect(await hand(live, session, parcel)).toMatchObject(SHOWN);
    expect(model.last.count(parcel.text)).toBe(1);
  });

  real.it('is not claimed as shown if its window is killed, and not sent to a thread without one', async () => {
    const held = gate();
    const { model, live, session, terminal } = await aWindow(say('late', held.opened));
    const parcel = aParcel();
    const attempt = hand(live, session, parcel);
    await model.saw(parcel.id);
    await endAll([session.pid ?? 0]);
    await terminal.close();
    await within(DEADLINE, async () => (await live.list()).length === 0);
    expect(await live.proof(session, parcel.id, 0)).toMatchObject({ step: 'accepted' });
    expect(await hand(live, session, aParcel('too late'))).toMatchObject({ outcome: 'left', retry: true });
    // Codex goes on without a window: then it was in a request, and its record says so.
    held.open();
    expect(await attempt).toMatchObject(SHOWN);
    expect(model.main).toHaveLength(1);
  });

  real.it('is unknown if the daemon is killed in its turn, and proven by the turn after that', async () => {
    const { model, live, session, code, terminal } = await aWindow(say('never', gate().opened), say('back again'));
    const [shown, lost] = [aParcel('shown'), aParcel('lost')];
    const attempt = hand(live, session, shown);
    await model.saw(shown.id);
    const second = hand(live, session, lost);
    await accepted(code, 2);
    await endAll([daemonOf(code)]);
    expect([(await attempt).outcome, (await second).outcome]).toEqual(['offered', 'offered']);
    expect(await live.proof(session, shown.id, 0)).toMatchObject({ step: 'accepted' });
    expect(await live.proof(session, lost.id, 0)).toEqual({ step: 'none', isOver: false });
    await terminal.close();
    const again = await code.terminal(['resume', session.id]);
    await code.ready(again);
    await within(DEADLINE, async () => (await live.list()).some(({ id }) => id === session.id));
    await within(DEADLINE, async () => {
      const proof = await live.proof(session, lost.id, 0);
      return proof.step === 'none' && proof.isOver;
    });
    expect(await hand(live, session, lost)).toMatchObject(SHOWN);
    expect([shown, lost].map(({ text }) => model.last.count(text))).toEqual([1, 1]);
    expect(await live.proof(session, shown.id, 0)).toMatchObject({ step: 'shown' });
  });

  real.it('is proven as well if our hook brought it', async () => {
    const { model, live, session, terminal, place } = await aWindow({ hook: true }, say('done'));
    const parcel = aParcel();
    const line = (text: string): string => `[parley ab12] ${text}`;
    const short = parcel.id.slice(0, 8);
    const mail = [
      line('Mail for @me.'),
      line(`message ${short} from @bob to @me`),
      parcel.text,
      line(`end of message ${short}`),
    ];
    const additionalContext = mail.join('\n');
    const output = { hookSpecificOutput: { hookEventName: 'UserPromptSubmit', additionalContext } };
    writeFileSync(`${place.home}/hook.json`, JSON.stringify(output));
    await terminal.submit('hello');
    await model.saw(parcel.text);
    await within(DEADLINE, async () => (await live.proof(session, parcel.id, 0)).step === 'shown');
  });
});

interface WindowOptions {
  /** Codex asks before it runs a command. */
  asks?: boolean;
  /** A hook says what is in ~/hook.json with the next prompt, and its user trusts it. */
  hook?: boolean;
}

type Steps = Parameters<Model['script']>;

/** A window of Codex that a person opened, at its prompt. */
async function aWindow(first?: WindowOptions | Steps[0], ...rest: Steps) {
  const options: WindowOptions = first && ('asks' in first || 'hook' in first) ? first : {};
  const steps = first && options !== first ? [first as Steps[0], ...rest] : rest;
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aCodex({ place, model });
  const config = `${code.folder}/config.toml`;
  const asking = readFileSync(config, 'utf8')
    .replace('"never"', '"on-request"')
    .replace('danger-full-access', 'read-only');
  if (options.asks) writeFileSync(config, asking);
  const hooks = { UserPromptSubmit: [{ hooks: [{ type: 'command', command: `cat ${place.home}/hook.json` }] }] };
  if (options.hook) writeFileSync(`${code.folder}/hooks.json`, JSON.stringify({ hooks }));
  const live = opens(new CodexLive(code.env));
  counts(code);
  const terminal = await code.terminal();
  if (options.hook) await code.trustHooks(terminal);
  await code.ready(terminal);
  // A daemon that just started is left to its window at first.
  live.watch(() => {});
  await within(DEADLINE, async () => (await live.list()).length === 1);
  const [session] = await live.list();
  if (!session) throw new Error('no session');
  return { model, place, code, live, terminal, session };
}

/** A tool call that runs until the test says so. */
function tool(): Steps[0] {
  return call('exec_command', { cmd: 'while [ ! -e go ]; do sleep 0.05; done', yield_time_ms: 60_000 });
}

async function working(model: Model, live: CodexLive, session: LiveSession, terminal: Terminal): Promise<void> {
  await terminal.submit('work');
  await model.request(1);
  await becomes(live, session, 'active');
  await terminal.shows(/Running|Working/);
}

function hand(live: CodexLive, session: LiveSession, ...parcels: Parcel[]): Promise<Attempt> {
  const [way] = live.ways(session);
  if (!way) throw new Error('no way');
  return way.attempt(parcels, NEVER);
}

/** Waits until Codex has answered for so many prompts of ours, which wait for its turn. */
async function accepted(code: Codex, count: number): Promise<void> {
  await within(DEADLINE, async () => answered(code) >= count);
}

/** Prompts of this process that Codex has said yes to. */
const answers = new WeakMap<Codex, number>();
function answered(code: Codex): number {
  return answers.get(code) ?? 0;
}

/** Counts them. */
function counts(code: Codex): void {
  const daemon = CodexDaemon.at(codexHome(code.env));
  const prompt = daemon.prompt.bind(daemon);
  daemon.prompt = async (...words) => {
    const turn = await prompt(...words);
    answers.set(code, answered(code) + 1);
    return turn;
  };
  opens({ close: async () => daemon.release() });
}

async function becomes(live: CodexLive, { id }: LiveSession, status: LiveSession['status']): Promise<void> {
  await within(DEADLINE, async () => (await live.list()).find((one) => one.id === id)?.status === status);
}

function daemonOf(code: Codex): number {
  return (JSON.parse(readFileSync(`${code.folder}/app-server-daemon/daemon.pid`, 'utf8')) as { pid: number }).pid;
}
