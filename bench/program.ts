import { copyFileSync, mkdirSync } from 'node:fs';

const PROJECT = new URL('..', import.meta.url).pathname;

/** The compiled program as `npm run build` makes it, copied so that nobody rebuilds it under our hands. */
export function buildProgram(folder: string): string {
  const built = Bun.spawnSync(['node', 'scripts/build.mjs'], { cwd: PROJECT, stdio: ['ignore', 'ignore', 'inherit'] });
  if (!built.success) throw new Error('the program could not be built');
  mkdirSync(folder, { recursive: true });
  copyFileSync(`${PROJECT}dist/parley`, `${folder}/parley`);
  return `${folder}/parley`;
}

/** An environment in which only this folder is home: nothing of the user's is read or written. */
export function envOf(home: string): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    PARLEY_HOME: `${home}/.parley`,
    PARLEY_AGENT: 'alice',
    PARLEY_NO_DAEMON: '1',
  };
}

/** Runs a command to its end; anything but success is an error. */
export function run(command: string[], env: Record<string, string>, stdin: number | 'ignore' = 'ignore'): void {
  const done = Bun.spawnSync(command, { env, cwd: env['HOME'] ?? '/', stdio: [stdin, 'ignore', 'pipe'] });
  if (done.success) return;
  const [program, word = ''] = command;
  throw new Error(`${program} ${word} ended with ${done.exitCode}: ${done.stderr.toString().trim()}`);
}
