import { afterEach, describe, expect, it } from 'bun:test';
import { existsSync, readdirSync, statSync } from 'node:fs';
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

  it('comes by its way as soon as the composer is empty, and is proven by the record alone', async () => {
    const { tui, way, keys, seen } = await aWindow();
    await tui.order('draft half a thought');
    await seen('draft');
    const parcel = aParcel();
    const proofs: RecordedProof[] = [
      { step: 'none', isOver: false },
      { step: 'accepted', evidence: {} },
      { step: 'shown', evidence: { record: 'it' } },
    ];
    const attempt = way(async () => proofs.shift() ?? { step: 'shown', evidence: {} }).attempt([parcel], NEVER);
    await Bun.sleep(600);
    expect(tui.prompts()).toEqual([]);
    keys('\u0015');
    expect(await attempt).toMatchObject({ outcome: 'taken', step: 'shown', evidence: { record: 'it' } });
    expect(tui.prompts()).toEqual([parcel.text]);
  });

  it('waits again if the client ends before it was typed, and is not known to have arrived if it ends after', async () => {
    const none = async (): Promise<RecordedProof> => ({ step: 'none', isOver: false });
    const first = await aWindow();
    await first.tui.order('busy');
    await first.seen('busy');
    const early = first.way(none).attempt([aParcel()], NEVER);
    await first.tui.order('quit');
    expect(await early).toMatchObject({ outcome: 'left', retry: true });
    await within(DEADLINE, async () => !existsSync(first.sessions.socketOf(first.held)));
    expect(readdirSync(first.sessions.folder)).toEqual([]);
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
  const way = (proof: () => Promise<RecordedProof>): HeldWay =>
    new HeldWay({ sessions, holder: found.holder, inTurn: (act) => act(), proof, recordFolders: () => [] });
  const keys = (some: string): void => void child.terminal?.write(some);
  return { tui, child, held: found, sessions, seen, type, way, keys, drawn: () => drawn };
}
