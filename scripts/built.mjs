// Tells whether dist/parley exists and is as new as all its sources.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** The compiled program. */
export const PROGRAM = `${root}dist/parley`;

export function isBuilt() {
  if (!existsSync(PROGRAM)) return false;
  const built = statSync(PROGRAM).mtimeMs;
  return parts().every((path) => statSync(`${root}${path}`).mtimeMs <= built);
}

/** Checks folders too: their time shows that a file was removed. */
function parts() {
  const within = ['src', 'plugins'].flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true }).map((name) => `${folder}/${name}`),
  );
  const compiled = within.filter((path) => !/\.(test|contract)\.ts$/.test(path));
  return [...compiled, 'package.json', 'package-lock.json', 'scripts/build.mjs'];
}
