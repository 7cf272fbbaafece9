import { describe, expect, it } from 'bun:test';
import { hookScript } from './hook-script.ts';

const SHELLS = ['dash', 'bash', 'busybox', 'sh'].filter((shell) => Bun.which(shell) !== null);

describe('the script of the hook', () => {
  const nasty = `/home/o'brien/a b"$(touch x)\`id\`\\n`;

  it.each(SHELLS)('is a script for %s, whatever the paths in it', (shell) => {
    const command = shell === 'busybox' ? ['busybox', 'sh'] : [shell];
    const checked = Bun.spawnSync([...command, '-n', '/dev/stdin'], {
      stdin: Buffer.from(hookScript(nasty, [nasty, `${nasty}/main.ts`])),
    });
    expect({ code: checked.exitCode, err: checked.stderr.toString() }).toEqual({ code: 0, err: '' });
  });

  it('names its paths as single words', () => {
    expect(hookScript(`/a'b`, ['/c d', '/e'])).toContain(`h='/a'\\''b'\n`);
    expect(hookScript('/a', ['/c d', '/e'])).toContain(`exec '/c d' '/e' hook "$@"`);
  });
});
