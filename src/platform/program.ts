import { statSync } from 'node:fs';
import { version } from '../../package.json' with { type: 'json' };

export const VERSION: string = version;

/** True in the compiled binary, which carries its source inside. */
export function isCompiled(): boolean {
  return import.meta.dir.startsWith('/$bunfs');
}

/** Where the source begins. In the compiled binary this is inside it. */
export const MAIN = `${import.meta.dir.replace(/platform$/, 'cli')}/main.ts`;

/** Bun's flags under which a folder's own .env, bunfig.toml and missing packages change nothing about a start from source. */
const ALONE = ['--no-env-file', '--config=/dev/null', '--no-install'];

/** The command line that starts this very program once more. */
export function ownCommand(): string[] {
  return isCompiled() ? [process.execPath] : [process.execPath, ...ALONE, MAIN];
}

/**
 * What to do about an error of ours, if our own files were replaced or removed after this process began: what it still had to load
 * does not fit what it has. Null while they are as they were. It is asked after something failed, so no start pays for it.
 */
export function staleAdvice(main = MAIN, since = performance.timeOrigin): string | null {
  // The compiled program carries all of it inside.
  return main.startsWith('/$bunfs') || changedAt(main) <= since
    ? null
    : 'its files were replaced or removed while it ran; start it again';
}

/** An upgrade may leave a file the time of its packing, but not hide when it was put there. */
function changedAt(path: string): number {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return Infinity;
  }
}
