import { join } from 'node:path';
import { version } from '../../package.json' with { type: 'json' };
import { MIGRATIONS } from '../storage/ledger/schema.ts';

export const VERSION: string = version;

/** The newest format of the ledger that this program knows. */
export const LEDGER_FORMAT = MIGRATIONS.length;

/** True in the compiled binary, which carries its source inside. */
export function isCompiled(): boolean {
  return import.meta.dir.startsWith('/$bunfs');
}

/** Where the source begins. In the compiled binary this is inside it. */
export const MAIN = join(import.meta.dir, 'main.ts');

/** Bun's flags under which a folder's own .env, bunfig.toml and missing packages change nothing about a start from source. */
const ALONE = ['--no-env-file', '--config=/dev/null', '--no-install'];

/** The command line that starts this very program once more. */
export function ownCommand(): string[] {
  return isCompiled() ? [process.execPath] : [process.execPath, ...ALONE, MAIN];
}
