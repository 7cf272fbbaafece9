import { afterEach, describe, expect, it } from 'bun:test';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { ScriptedTui } from '../../test/support/scripted-tui.ts';
import { within } from '../../test/support/within.ts';
import type { RecordedProof } from '../core/ports/live-session.ts';
import { askHolder, HeldSessions } from './held-session.ts';
import type { HeldSession } from './held-session.ts';
import { HeldWay } from './held-way.ts';
import { aParcel, NEVER } from './way.contract.ts';

const CHILD = new URL('../../test/support/held-tui.child.ts', import.meta.url).pathname;
const DEADLINE = 30_000;
const isHere = process.platform === 'linux';

const windows: Bun.Subprocess[] = [];
afterEach(async () => {
  for (const child of windows.splice(0)) {
    child.kill('SIGKILL');
    await child.exited;
  }
});

describe.skipIf(!isHere)(`mail in a terminal that we hold${isHere ? '' : ' (skipped: Linux only)'}`, () => {
  it('is typed once, as one paste, and said to be; the socket is for nobody else', async () => {
    const { tui, held, type, sessions } = await aWindow();
    expect(statSync(sessions.socketOf(held)).mode & 0o777).toBe(0o600);
    const parcel = aParcel('two\nlines');
    expect(await type(parcel)).toMatchObject({ typed: 'entered' });
    expect(await type(parcel)).toMatchObject({ typed: 'entered' });
    expect(await askHolder(sessions.socketOf(held), { typed: parcel.id }, DEADLINE)).toMatchObject({
      typed: 'entered',
    });
    expect(await askHolder(sessions.socketOf(held), { typed: 'other' }, DEADLINE)).toMatchObject({ typed: 'unknown' });
    expect(tui.noted().filter(({ prompt }) => prompt)).toMatchObject([{ prompt: parcel.text, pastes: 1, keys: 0 }]);
  });

  it('is typed again if it is given again, in other words', async () => {
    const { tui, type, seen } = await aWindow();
    const parcel = aParcel();
    expect(await type(parcel)).toMatchObject({ typed: 'entered' });
    await seen('empty');
    const again = { ...parcel, text: `${parcel.text} redelivered` };
    await within(DEADLINE, async () => (await type(again))?.typed === 'entered');
    expect(tui.prompts()).toEqual([parcel.text, again.text]);
  });

  it('waits while its user has a draft, is asked something, or lets the client work', async () => {
    const { tui, type, seen } = await aWindow();
    await tui.order('draft half a thought');
    await seen('draft');
    expect(await type(aParcel())).toMatchObject({ typed: 'waits', because: 'its screen is draft' });
    await tui.order('draft ');
    await tui.order('dialog');
    await seen('dialog');
    expect(await type(aParcel())).toMatchObject({ typed: 'waits' });
    await tui.order('busy');
    await seen('busy');
    expect(await type(aParcel())).toMatchObject({ typed: 'waits' });
    expect(tui.prompts()).toEqual([]);
    expect(tui.noted().some(({ approved }) => approved)).toBe(false);
  });

  it('waits after its user has typed something, also if the composer is empty', async () => {
    const { tui, type, keys, drawn, seen } = await aWindow({ QUIET_MS: '1000000' });
    expect(await type(aParcel())).toMatchObject({ typed: 'entered' });
    await seen('empty');
    const before = drawn().length;
    keys('\u0015');
    await within(DEADLINE, async () => drawn().length > before);
    expect(await type(aParcel())).toMatchObject({ typed: 'waits', because: 'its user types' });
    expect(tui.prompts()).toHaveLength(1);
  });

  it('is not mixed with keys that its user presses meanwhile: they come after it', async () => {
    const { tui, type, keys, drawn } = await aWindow();
    const parcel = aParcel('one line');
    const typed = type(parcel);
    await within(DEADLINE, async () => drawn().includes('[pasted'));
    keys('later');
    expect(await typed).toMatchObject({ typed: 'entered' });
    keys('\r');
    expect(await tui.prompted(2)).toEqual([parcel.text, 'later']);
  });

  it('is left while its user has a draft, so that a hook can bring it, and is typed once the composer is empty', async () => {
    const { tui, way, keys, seen } = await aWindow();
    await tui.order('draft half a thought');
    await seen('draft');
    const parcel = aParcel();
    const proofs: RecordedProof[] = [
      { step: 'none', isOver: false },
      { step: 'accepted', evidence: {} },
      { step: 'shown', evidence: { record: 'it' } },
    ];
    const toIt = way(async () => proofs.shift() ?? { step: 'shown', evidence: {} });
    expect(await toIt.attempt([parcel], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(tui.prompts()).toEqual([]);
    keys('\u0015');
    await seen('empty');
    // Proven by the record alone.
    expect(await toIt.attempt([parcel], NEVER)).toMatchObject({
      outcome: 'taken',
      step: 'shown',
      evidence: { record: 'it' },
    });
    expect(tui.prompts()).toEqual([parcel.text]);
  });

  it('is not typed again if the conversation has it, and what comes with it has the greeting', async () => {
    const { tui, way } = await aWindow();
    const [known, news] = [aParcel('known'), aParcel('news')];
    const shown = async (): Promise<RecordedProof> => ({ step: 'shown', evidence: {} });
    const greeted = { ...known, text: `greeting\n${known.text}` };
    const attempt = await way(shown, (id) => id === known.id).attempt([greeted, news], NEVER);
    expect(attempt).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect(tui.prompts()).toEqual([`greeting\n${news.text}`]);
  });

  it('waits again if nobody listens where its terminal is held: nothing was typed', async () => {
    const { way, sessions, held } = await aWindow();
    rmSync(sessions.socketOf(held));
    const attempt = way(async () => ({ step: 'none', isOver: false })).attempt([aParcel()], NEVER);
    expect(await attempt).toMatchObject({ outcome: 'left', retry: true });
  });

  it('keeps the keys of its user only until Enter, however long the client says nothing', async () => {
    const { tui, type, keys, drawn } = await aWindow({ ENTERED_MS: '1000000' });
    await tui.order('mute');
    const parcel = aParcel('one line');
    void type(parcel);
    await within(DEADLINE, async () => drawn().includes('[pasted'));
    keys('later\r');
    expect(await tui.prompted(2)).toEqual([parcel.text, 'later']);
  });

  it('is sent by another Enter if the client did not take the first, and comes once', async () => {
    const { tui, type, seen } = await aWindow({ ENTERED_MS: '100' });
    await tui.order('deaf 1');
    const parcel = aParcel('two\nlines');
    expect(await type(parcel)).toMatchObject({ typed: 'entered' });
    expect(await tui.prompted()).toEqual([parcel.text]);
    await seen('empty');
    const next = aParcel('the next');
    await within(DEADLINE, async () => (await type(next))?.typed === 'entered');
    expect(tui.noted().filter(({ prompt }) => prompt)).toMatchObject([
      { prompt: parcel.text, pastes: 1, keys: 0 },
      { prompt: next.text, pastes: 1, keys: 0 },
    ]);
  });

  it('is removed from the composer if the client takes no Enter, and waits again', async () => {
    const { tui, type, seen, way, sessions, held } = await aWindow({ ENTERED_MS: '100' });
    await tui.order('deaf 3');
    const parcel = aParcel('one line');
    const said = async () => askHolder(sessions.socketOf(held), { typed: parcel.id }, DEADLINE);
    const proof = async (): Promise<RecordedProof> => ({ step: 'none', isOver: (await said())?.typed === 'waits' });
    expect(await way(proof).attempt([parcel], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(tui.prompts()).toEqual([]);
    await seen('empty');
    await within(DEADLINE, async () => (await type(parcel))?.typed === 'entered');
    expect(await tui.prompted()).toEqual([parcel.text]);
  });

  it('that a question covered is sent after that, and approves nothing', async () => {
    const { tui, type, drawn, seen } = await aWindow();
    const parcel = aParcel('two\nlines');
    const typed = type(parcel);
    await within(DEADLINE, async () => drawn().includes('[pasted'));
    // Its screen alone says so. If it also told its state, that could be read first, and a part of the text be taken back.
    await tui.order('mute');
    await tui.order('dialog');
    expect(await typed).toMatchObject({ typed: 'stranded' });
    await Bun.sleep(500);
    await seen('dialog');
    expect([tui.prompts(), tui.noted().some(({ approved }) => approved)]).toEqual([[], false]);
    await tui.order('idle');
    expect(await tui.prompted()).toEqual([parcel.text]);
  });

  it('that was left in the composer is its own after a key of its user: nothing is sent or removed', async () => {
    const { tui, type, keys, drawn, seen, sessions, held } = await aWindow({ ENTERED_MS: '100' });
    const parcel = aParcel('two\nlines');
    const typed = type(parcel);
    await within(DEADLINE, async () => drawn().includes('[pasted'));
    await tui.order('dialog');
    expect(await typed).toMatchObject({ typed: 'stranded' });
    keys('!');
    await tui.order('idle');
    await seen('draft');
    await Bun.sleep(1000);
    expect([tui.prompts(), await type(aParcel())]).toMatchObject([[], { typed: 'waits' }]);
    await tui.order('draft ');
    // It was removed: it may be typed again.
    const said = async () => askHolder(sessions.socketOf(held), { typed: parcel.id }, DEADLINE);
    await within(DEADLINE, async () => (await said())?.typed === 'waits');
    await within(DEADLINE, async () => (await type(parcel))?.typed === 'entered');
    expect(await tui.prompted()).toEqual([parcel.text]);
  });

  it('that was left in the composer and removed there waits again, and nothing is typed before that is known', async () => {
    const { tui, type, keys, drawn, seen, sessions, held } = await aWindow({ ENTERED_MS: '100' });
    const [parcel, next] = [aParcel('two\nlines'), aParcel('the next')];
    const typed = type(parcel);
    await within(DEADLINE, async () => drawn().includes('[pasted'));
    await tui.order('dialog');
    expect(await typed).toMatchObject({ typed: 'stranded' });
    keys('!');
    await tui.order('idle');
    await seen('draft');
    await tui.order('draft ');
    await seen('empty');
    await within(DEADLINE, async () => (await type(next))?.typed === 'entered');
    expect(await askHolder(sessions.socketOf(held), { typed: parcel.id }, DEADLINE)).toMatchObject({ typed: 'waits' });
  });

  it('does not end the client, nor write over its screen, if its state cannot be written down', async () => {
    const { tui, sessions, child, seen, drawn } = await aWindow();
    rmSync(sessions.folder, { recursive: true });
    await tui.order('draft half a thought');
    await within(DEADLINE, async () => drawn().includes('half a thought'));
    await Bun.sleep(300);
    mkdirSync(sessions.folder);
    await seen('draft');
    expect([child.exitCode, drawn().includes('ENOENT')]).toEqual([null, false]);
  });

  it('is not asked for by what is no request', async () => {
    const { tui, sessions, held } = await aWindow();
    const ask = (request: unknown) => askHolder(sessions.socketOf(held), request as never, DEADLINE);
    for (const request of [{}, null, { type: {} }, { type: { ids: 'x', text: 1 } }, { typed: 1 }])
      expect(await ask(request)).toMatchObject({ typed: 'never' });
    expect(await ask({ typed: 'x' })).toMatchObject({ typed: 'unknown' });
    expect(tui.prompts()).toEqual([]);
  });

  it('waits again if the client ends before it was typed, and is not known to have arrived if it ends after', async () => {
    const none = async (): Promise<RecordedProof> => ({ step: 'none', isOver: false });
    const first = await aWindow();
    await first.tui.order('busy');
    await first.seen('busy');
    const early = first.way(none).attempt([aParcel()], NEVER);
    await first.tui.order('quit');
    expect(await early).toMatchObject({ outcome: 'left', retry: true });
    await within(DEADLINE, async () => readdirSync(first.sessions.folder).length === 0);
    const second = await aWindow();
    const late = second.way(none).attempt([aParcel()], NEVER);
    await second.tui.prompted();
    second.child.kill('SIGKILL');
    expect(await late).toMatchObject({ outcome: 'offered' });
  });
});

/** The scripted agent in a terminal that a process of ours holds, idle, and its user has been quiet. */
async function aWindow(env: Record<string, string> = {}) {
  const [home, tui] = [temporaryHome(), new ScriptedTui()];
  let drawn = '';
  const child = Bun.spawn([process.execPath, CHILD, home, tui.folder, ...tui.command], {
    env: { PATH: process.env['PATH'] ?? '', BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0', TERM: 'xterm', ...env },
    terminal: { cols: 80, rows: 24, data: (_terminal, bytes) => void (drawn += Buffer.from(bytes).toString('latin1')) },
  });
  windows.push(child);
  const sessions = new HeldSessions(home);
  const held = (): HeldSession | null => sessions.all()[0] ?? null;
  const seen = (what: HeldSession['seen']): Promise<void> => within(DEADLINE, async () => held()?.seen === what);
  await tui.ready();
  await seen('empty');
  const found = held();
  if (!found) throw new Error('nobody holds it');
  const type = ({ id, text }: { id: string; text: string }) =>
    askHolder(sessions.socketOf(found), { type: { ids: [id], text } }, DEADLINE);
  const way = (proof: () => Promise<RecordedProof>, has = (_id: string): boolean => false): HeldWay =>
    new HeldWay({ sessions, holder: found.holder, inTurn: (act) => act(), has, proof, recordFolders: () => [] });
  const keys = (some: string): void => void child.terminal?.write(some);
  return { tui, child, held: found, sessions, seen, type, way, keys, drawn: () => drawn };
}
