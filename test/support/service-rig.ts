// A user with a systemd of their own: a stand-in for systemctl that really starts what the unit says, and logs what it was told.
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { ControlRig } from './control-rig.ts';
import { PARLEY, personAt } from './program.ts';
import type { Run } from './program.ts';

const CHILD = new URL('./fake-systemctl.child.ts', import.meta.url).pathname;

export class ServiceRig extends ControlRig {
  readonly unit = `${this.home}/.config/systemd/user/ccc.service`;
  readonly #state = `${this.home}/systemd`;
  readonly env: Record<string, string>;

  constructor(...args: ConstructorParameters<typeof ControlRig>) {
    super(...args);
    const bin = `${this.home}/fake`;
    mkdirSync(bin);
    mkdirSync(this.#state);
    const bun = `BUN_RUNTIME_TRANSPILER_CACHE_PATH=0 exec '${process.execPath}'`;
    this.#script(`${bin}/systemctl`, `${bun} '${CHILD}' '${this.#state}' "$@"`);
    for (const name of ['loginctl', 'sudo', 'journalctl'])
      this.#script(`${bin}/${name}`, `echo "${name} $*" >> '${this.#state}/calls'`);
    const { BUN_RUNTIME_TRANSPILER_CACHE_PATH: _, ...env } = this.claude.env;
    this.env = { ...env, PATH: `${bin}:${env['PATH']}` };
  }

  #script(path: string, text: string): void {
    writeFileSync(path, `#!/bin/sh\n${text}\n`);
    chmodSync(path, 0o755);
  }

  /** What systemctl, loginctl and the others were told to do, without the questions about the state; then it is forgotten. */
  calls(): string[] {
    const path = `${this.#state}/calls`;
    if (!existsSync(path)) return [];
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    rmSync(path);
    return lines.filter((line) => !line.startsWith('systemctl --user show '));
  }

  /** Does systemd answer? */
  bus(answers: boolean): void {
    if (answers) rmSync(`${this.#state}/no-bus`, { force: true });
    else writeFileSync(`${this.#state}/no-bus`, '');
  }

  /** The server ends and systemd has given up to start it. */
  fails(): void {
    // 0 is the process group of the test.
    if (this.servicePid === 0) throw new Error('the service does not run');
    process.kill(this.servicePid, 'SIGKILL');
    writeFileSync(`${this.#state}/failed`, '');
  }

  /** systemd reads the unit of this name from another file. */
  readsOther(path: string): void {
    writeFileSync(`${this.#state}/other-file`, path);
  }

  get servicePid(): number {
    return existsSync(`${this.#state}/pid`) ? Number(readFileSync(`${this.#state}/pid`, 'utf8')) : 0;
  }

  /** What the server wrote, which is in the journal of a real one. */
  get log(): string {
    return existsSync(`${this.#state}/log`) ? readFileSync(`${this.#state}/log`, 'utf8') : '';
  }

  /** `parley …` as a person types it, with its output in files. */
  async person(args: string[], env: Record<string, string> = {}, program = PARLEY): Promise<Run> {
    return this.#personAt([program, ...args], env);
  }

  /** `parley …` from a script of the user: no terminal, and no client above it. */
  async script(args: string[], env: Record<string, string> = {}): Promise<Run> {
    return this.#personAt(['sh', '-c', 'exec "$0" "$@" </dev/null', PARLEY, ...args], env);
  }

  /** `parley …` at a terminal where a person types this when it asks. */
  async typed(args: string[], typed: string): Promise<{ shown: string; code: number }> {
    return personAt({ command: [PARLEY, ...args], cwd: this.home, env: this.env, typed });
  }

  async #personAt(command: string[], env: Record<string, string>): Promise<Run> {
    return personAt({
      command,
      cwd: this.home,
      env: { ...this.env, ...env },
      typed: '',
      files: `${this.#state}/said`,
    });
  }

  override async close(): Promise<void> {
    this.bus(true);
    if (this.servicePid > 0) await this.program([`${this.home}/fake/systemctl`, '--user', 'stop', 'ccc.service']);
    await super.close();
  }
}
