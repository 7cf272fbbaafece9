import { describe, expect, it } from 'bun:test';
import { ScriptedKimi } from '../../../test/support/kimi.ts';
import { anId } from '../../../test/support/mail.ts';
import { within } from '../../../test/support/within.ts';
import type { Attempt } from '../../core/ports/way-in.ts';
import { WireWay } from './wire.ts';
import type { WireOrder } from './wire.ts';

function wireOf(kimi: ScriptedKimi, more: Partial<WireOrder> = {}): WireWay {
  return new WireWay({
    command: [kimi.path],
    workDir: kimi.folder,
    env: { PATH: process.env['PATH'] },
    startMs: 20_000,
    turnMs: 20_000,
    version: '0',
    ...more,
  });
}

async function offered(kimi: ScriptedKimi, more: Partial<WireOrder> = {}, signal?: AbortSignal): Promise<Attempt> {
  const parcels = ['<c2c>one</c2c>', '<c2c>two</c2c>'].map((text) => ({ id: anId(), text }));
  return wireOf(kimi, more).attempt(parcels, signal ?? new AbortController().signal);
}

describe('the wire of kimi', () => {
  it('is greeted, gets all mail in one prompt, and its word that the turn ended is the proof [C2C-36]', async () => {
    const kimi = new ScriptedKimi();
    expect(await offered(kimi)).toEqual({
      outcome: 'taken',
      step: 'accepted',
      evidence: { way: 'wire', status: 'finished', steps: 1 },
    });
    expect(kimi.prompts).toEqual(['<c2c>one</c2c>\n\n<c2c>two</c2c>']);
    expect(kimi.heard[1]?.initialize).toMatchObject({ protocol_version: '1.10', client: { name: 'parley' } });
    expect(kimi.starts).toEqual([['--wire', '--work-dir', kimi.folder]]);
    expect(kimi.runs).toBe(false);
  });

  it.each([
    ['is busy', 'busy', 'a turn is running already'],
    ['cannot reach its model', 'refuse', 'the model could not be reached'],
    ['crashes at its start', 'fall', 'no terminal'],
  ] as const)('that %s leaves the mail, for later [C2C-36]', async (_case, act, because) => {
    const said = await offered(new ScriptedKimi([act]));
    expect(said).toMatchObject({ outcome: 'left', retry: true });
    expect(said.outcome === 'left' && said.because).toContain(because);
  });

  it('that dies in the middle of a turn is not reported as having taken the mail', async () => {
    const said = await offered(new ScriptedKimi(['die']));
    expect(said).toMatchObject({ outcome: 'offered' });
    expect(said.outcome === 'offered' && said.evidence['unknown']).toContain('it ended with code 3');
  });

  it('gets no approval from Parley: only its user can give it', async () => {
    const kimi = new ScriptedKimi(['ask']);
    expect(await offered(kimi)).toMatchObject({ outcome: 'taken', evidence: { declined: 'ApprovalRequest' } });
    expect(kimi.heard.find(({ reply }) => reply)?.reply).toMatchObject({ request_id: 'a1', response: 'reject' });
  });

  it('that never ends its turn is cancelled and ended, and it stays unknown what it saw', async () => {
    const kimi = new ScriptedKimi(['hang']);
    const said = await offered(kimi, { turnMs: 300 });
    expect(said).toMatchObject({ outcome: 'offered', evidence: { unknown: expect.stringContaining('cancelled') } });
    expect(kimi.heard.some(({ cancel }) => cancel)).toBe(true);
    expect(kimi.runs).toBe(false);
  });

  it('is ended when we are told to stop, before or during a turn', async () => {
    const kimi = new ScriptedKimi(['hang']);
    expect(await offered(kimi, {}, AbortSignal.abort())).toMatchObject({ outcome: 'left' });
    expect(kimi.starts).toEqual([]);

    const stop = new AbortController();
    const said = offered(kimi, {}, stop.signal);
    await within(10_000, async () => kimi.prompts.length > 0);
    stop.abort();
    expect(await said).toMatchObject({ outcome: 'offered' });
    expect(kimi.runs).toBe(false);
  });

  it('that does not exit when its input closes is killed', async () => {
    const kimi = new ScriptedKimi(['stubborn']);
    await offered(kimi, { turnMs: 100, leaveMs: 200 });
    expect(kimi.runs).toBe(false);
  });

  it.each(['2.1.0', '0.77.1'])(
    'does not exist in kimi %s, and the reason says what to use instead',
    async (version) => {
      const kimi = new ScriptedKimi(['accept'], version);
      const said = await offered(kimi);
      expect(said).toMatchObject({ outcome: 'left', retry: false });
      expect(said.outcome === 'left' && said.because).toMatch(
        new RegExp(`^kimi ${version} has no --wire.*c2c start kimi`),
      );
      expect(kimi.starts).toEqual([]);
    },
  );

  it('does not exist where kimi is not installed', async () => {
    const said = await offered(new ScriptedKimi(), { command: ['/nowhere/kimi'] });
    expect(said).toMatchObject({ outcome: 'left', because: expect.stringContaining('/nowhere/kimi was not found') });
  });
});
