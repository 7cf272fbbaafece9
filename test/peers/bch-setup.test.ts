// What the two programs write into the settings of clients, one after the other: neither adds what the other has added.
import { afterEach, describe, expect } from 'bun:test';
import { ALL_CLIENTS } from '../support/setup-home.ts';
import { endAll, PeerMachine, peers } from './support/peer.ts';
import type { Brand } from './support/peer.ts';

const { story, why } = peers('original');
const FILES = [
  '.claude/settings.json',
  '.claude.json',
  '.codex/config.toml',
  '.codex/AGENTS.md',
  '.gemini/settings.json',
  '.gemini/GEMINI.md',
];
afterEach(endAll);

/** A machine with all clients, which this program has set up. */
async function setUpBy(brand: Brand, ...flags: string[]): Promise<PeerMachine> {
  const machine = new PeerMachine().agent('me').with(ALL_CLIENTS);
  await machine.told(brand, ['setup', ...flags], { as: 'me' });
  return machine;
}

describe(`clients that are set up by both programs${why}`, () => {
  story.each([
    ['original', 'ours'],
    ['ours', 'original'],
  ] as const)('have everything once: %s first, then %s [BC-B9.4, BC-B9.14, BC-B9.15]', async (first, second) => {
    const machine = await setUpBy(first);
    const before = FILES.map((file) => machine.read(file));
    const said = await machine.told(second, ['setup'], { as: 'me' });
    expect(FILES.map((file) => machine.read(file))).toEqual(before);
    expect(said).not.toMatch(/added to|from now on/);
  });

  story('have one wake service: ours counts that of the original as its own [BC-B9.12]', async () => {
    const machine = new PeerMachine().agent('me');
    const env = { BACKCHANNEL_SETUP_HOME: machine.program.home };
    await machine.told('original', ['setup', '--no-hooks', '--wake'], { as: 'me', env });
    await machine.told('ours', ['setup', '--no-hooks', '--wake'], { as: 'me', env });
    const units = [...new Bun.Glob('*.service').scanSync({ cwd: machine.at('.config/systemd/user') })];
    expect(units).toEqual(['backchannel-wake.service']);
  });
});
