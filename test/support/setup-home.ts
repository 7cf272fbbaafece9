import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { Machine } from './bch.ts';
import { temporaryHome } from './home.ts';

/** A machine on which clients are set up: its search path has the system's programs, and before them those that a test puts there. */
export class SetupMachine extends Machine {
  readonly bin = temporaryHome();
  /** Where the fakes of systemctl and launchctl write what they were told. */
  readonly calls = `${this.bin}/calls`;

  constructor() {
    super();
    // Nothing of the real system is ever started or stopped.
    for (const name of ['systemctl', 'launchctl']) this.fake(name, `echo "${name} $*" >> '${this.calls}'`);
  }

  override env(options: Parameters<Machine['env']>[0] = {}): Record<string, string> {
    const { home } = this.program;
    // A checkout may itself lie in the system's temporary folder.
    return { ...super.env(options), PATH: `${this.bin}:/usr/bin:/bin`, TMPDIR: `${home}/tmp`, ...options.env };
  }

  /** A program on the search path that does nothing, or this. */
  fake(name: string, script = 'exit 0'): this {
    writeFileSync(`${this.bin}/${name}`, `#!/bin/sh\n${script}\n`);
    chmodSync(`${this.bin}/${name}`, 0o755);
    return this;
  }

  /** Files in the home, by their paths there. */
  with(files: Record<string, string>): this {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(this.at(path)), { recursive: true });
      if (path.endsWith('/')) mkdirSync(this.at(path), { recursive: true });
      else writeFileSync(this.at(path), text);
    }
    return this;
  }

  at(path: string): string {
    return `${this.program.home}/${path}`;
  }

  read(path: string): string {
    return readFileSync(this.at(path), 'utf8');
  }

  json(path: string): Record<string, unknown> {
    return JSON.parse(this.read(path)) as Record<string, unknown>;
  }

  get called(): string[] {
    return existsSync(this.calls) ? readFileSync(this.calls, 'utf8').trim().split('\n') : [];
  }

  /** Everything in the home: folders, links, modes and bytes. */
  snapshot(): Record<string, string> {
    const names = readdirSync(this.program.home, { recursive: true, encoding: 'utf8' }).sort();
    return Object.fromEntries(
      names.map((name) => {
        const stat = lstatSync(this.at(name));
        const mode = (stat.mode & 0o777).toString(8);
        if (stat.isSymbolicLink()) return [name, `link to ${readlinkSync(this.at(name))}`];
        return [
          name,
          stat.isDirectory() ? `folder ${mode}` : `${mode} ${readFileSync(this.at(name)).toString('latin1')}`,
        ];
      }),
    );
  }
}

/** The folders of all clients, empty. */
export const ALL_CLIENTS = { '.claude/': '', '.codex/': '', '.gemini/': '' };

/** A machine that has been set up, and what was said. */
export async function setUp(
  files: Record<string, string>,
  args: string[] = [],
): Promise<{ machine: SetupMachine; said: string }> {
  const machine = new SetupMachine().agent('me').with(files);
  return { machine, said: await machine.said(['setup', ...args], { as: 'me' }) };
}
