import { describe, expect, it } from 'bun:test';
import { temporaryHome } from '../../../test/support/home.ts';
import { TerminalWay } from '../../delivery/terminal.ts';
import type { Terminal } from '../../sessions/terminal.ts';
import { takeSeat } from './seat.ts';
import type { Wanted } from './wanted.ts';

const nowhere: Terminal = {
  name: 'nowhere',
  tty: null,
  screen: async () => null,
  paste: async () => {},
  enter: async () => {},
  erase: async () => {},
  close: async () => {},
};

/** How long after a paste Enter follows, in ms. */
async function enterAfter(client: string, options: Wanted['options'] = {}, terminal = 'tmux:%1'): Promise<number> {
  const wanted: Wanted = { kind: 'wake', session: 's', client, terminal, broker_root: '/b', options };
  const seat = await takeSeat(wanted, { HOME: temporaryHome() }, nowhere);
  await seat.close();
  const way = seat.typing(nowhere);
  return way instanceof TerminalWay ? way.options.enterAfter : 0;
}

describe('a client at its terminal', () => {
  it('gets Enter after its paste when it can tell the two apart: Kimi needs 1.5 s [C2C-32]', async () => {
    expect(await enterAfter('kimi')).toBe(1500);
    for (const client of ['claude', 'codex', 'opencode', 'another']) {
      expect(await enterAfter(client)).toBeGreaterThan(0);
    }
  });

  it('gets it later where nobody can see that the paste has come', async () => {
    for (const client of ['claude', 'codex', 'opencode'])
      expect(await enterAfter(client, {}, 'pty:1:1')).toBeGreaterThan(await enterAfter(client));
    expect(await enterAfter('another')).toBe(await enterAfter('another', {}, 'pty:1:1'));
  });

  it('gets it as late as its user says [C2C-32]', async () => {
    expect(await enterAfter('kimi', { submit_delay_ms: 700 })).toBe(700);
    expect(await enterAfter('claude', { submit_delay_ms: 2500 })).toBe(2500);
  });
});
