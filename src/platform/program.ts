import { statSync } from 'node:fs';
import { version } from '../../package.json' with { type: 'json' };

export const VERSION: string = version;

/** True in the compiled binary, which carries its source inside. */
export function isCompiled(): boolean {
  return import.meta.dir.startsWith('/$bunfs');
}

/** The path of the main source file. In the compiled binary it is inside the binary. */
export const MAIN = `${import.meta.dir.replace(/platform$/, 'cli')}/main.ts`;

/** Bun's flags that make a start from source ignore the current folder's .env and bunfig.toml, and install no packages. */
const ALONE = ['--no-env-file', '--config=/dev/null', '--no-install'];

/** The command line that starts this same program again. */
export function ownCommand(): string[] {
  return isCompiled() ? [process.execPath] : [process.execPath, ...ALONE, MAIN];
}

/**
 * The advice for an internal error if our own files were replaced or removed after this process started: modules loaded later do not
 * match those loaded before. Null if the files are unchanged. Called only after a failure, so no start pays for it.
 */
export function staleAdvice(main = MAIN, since = performance.timeOrigin): string | null {
  // The compiled program has all its files inside.
  return main.startsWith('/$bunfs') || changedAt(main) <= since
    ? null
    : 'its files were replaced or removed while it ran; start it again';
}

/** The change time: an upgrade may restore an old modification time, but not this one. */
function changedAt(path: string): number {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return Infinity;
  }
}
