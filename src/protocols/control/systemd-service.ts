import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { stableProgram } from '../../clients/own-program.ts';
import { explained, ifThere } from '../../core/disk.ts';
import type { Env } from '../../core/env.ts';
import { visibleLine } from '../../core/gate.ts';
import { Refusal } from '../../core/refusal.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import { realPath, replaceFile } from '../../platform/files.ts';
import { onPath } from '../../platform/search-path.ts';
import { ControlFile, controlPlaces, serverLock } from './config.ts';
import type { ControlPlaces } from './config.ts';
import { controlAnswers } from './listen-service.ts';
import { unitParts, SYSTEMD_UNIT, unitFor, unitPath, writerOf } from './unit.ts';

/** The time limit for systemctl. */
const SYSTEMCTL_MS = 30_000;
/** How long a started server may take to answer. */
const START_MS = 10_000;
const LINGER_FOLDER = '/var/lib/systemd/linger';

/** The state of our unit by systemd, or the reason why that is unknown. */
type Managed =
  | { answers: false; why: string }
  | { answers: true; file: string; active: string; isEnabled: boolean; pid: number | null; isOld: boolean };

export interface UnitState {
  path: string;
  /** Who wrote the file; `missing` if there is none. */
  file: 'missing' | 'ours' | 'changed' | 'foreign';
  /** systemd's own word: active, inactive, failed, …; null on a Mac or if systemd does not answer. */
  active: string | null;
  isEnabled: boolean;
  pid: number | null;
  /** Why the state is not known. */
  why?: string;
  /** Does it keep running after the user has logged out? */
  isLingering: boolean;
}

/** A report for people: lines that say what was done, and lines that say what they must do. */
export interface ServiceReport {
  done: string[];
  notes: string[];
}

/** The service of this user that keeps `ccc listen` running: a systemd user unit, or an agent of launchd. spec: control#service */
export class UserService {
  readonly path: string;
  readonly #aside: string;
  readonly #places: ControlPlaces;

  constructor(
    readonly env: Env,
    readonly platform: NodeJS.Platform = process.platform,
  ) {
    this.path = unitPath(env, platform);
    // systemd ignores files with this ending.
    this.#aside = `${this.path}.before-parley`;
    this.#places = controlPlaces(env);
  }

  state(): UnitState {
    const managed = this.#managed();
    const { path, file } = this;
    const isLingering = lingers();
    if (!this.#isRead(managed))
      return { path, file, active: null, isEnabled: false, pid: null, why: this.#notRead(managed), isLingering };
    const { active, isEnabled, pid } = managed;
    return { path, file, active, isEnabled, pid, isLingering };
  }

  get file(): UnitState['file'] {
    const text = this.text;
    if (text === null) return 'missing';
    // A person made this link: we make none.
    return lstatSync(this.path).isSymbolicLink() ? 'foreign' : writerOf(text);
  }

  /** The text of the file; null if there is none. */
  get text(): string | null {
    if (!lstatSync(this.path, { throwIfNoEntry: false })) return null;
    return ifThere(() => readFileSync(this.path, 'utf8')) ?? '';
  }

  /** Writes the unit and starts it. Idempotent. Null if a person's file is there: then nothing was changed. */
  async install(isForced: boolean): Promise<ServiceReport | null> {
    const { text } = unitFor(stableProgram(this.env, 'parley service install'), this.env, this.platform);
    const { file } = this;
    if ((file === 'foreign' || file === 'changed') && !isForced) return null;
    const report: ServiceReport = { done: [], notes: this.#missingPrograms(text) };
    const isNew = this.text !== text;
    if (isNew) this.#write(text, file, report);
    else report.done.push(`${this.path} is up to date`);
    if (this.platform === 'darwin')
      report.notes.push(`not tested on a Mac; to start it: launchctl bootstrap gui/$(id -u) ${this.path}`);
    else {
      await this.#begin(isNew, report);
      if (!lingers()) report.notes.push(LINGER);
    }
    return report;
  }

  /** Stops the service, removes the unit and restores an earlier file. Null if a person's file is there. */
  uninstall(isForced: boolean): ServiceReport | null {
    const { file } = this;
    if (file === 'foreign' || (file === 'changed' && !isForced)) return null;
    if (file === 'missing') throw notInstalled(this.path);
    const report: ServiceReport = { done: [], notes: [] };
    const managed = this.#managed();
    if (this.#isRead(managed)) {
      this.#systemctl('disable', '--now', SYSTEMD_UNIT);
      report.done.push('stopped the service; sessions live on in tmux');
    } else if (this.platform === 'darwin') report.notes.push(`if it runs: launchctl bootout gui/$(id -u) ${this.path}`);
    try {
      rmSync(this.path);
      report.done.push(`removed ${this.path}`);
      this.#restore(report);
    } catch (error) {
      throw explained(error, this.path, 'the service was not removed');
    }
    if (managed.answers) this.#systemctl('daemon-reload');
    return report;
  }

  /** Restarts the service with the program that is installed now. */
  async restart(): Promise<ServiceReport> {
    if (this.file === 'missing') throw notInstalled(this.path);
    const managed = this.#managed();
    if (!managed.answers) throw new Refusal('unreachable', `${managed.why}; type: systemctl --user restart ccc`);
    if (!this.#isRead(managed)) throw new Refusal('bad_config', this.#notRead(managed));
    this.#forgetFailure(managed.active);
    this.#systemctl('restart', SYSTEMD_UNIT);
    const report: ServiceReport = { done: [], notes: [] };
    await this.#awaitAnswer('restarted', report);
    return report;
  }

  /** Does this unit's server run? It uses a new program only after a restart. */
  get isActive(): boolean {
    if (this.file !== 'ours' && this.file !== 'changed') return false;
    const managed = this.#managed();
    return this.#isRead(managed) && managed.active === 'active';
  }

  /** The program that the unit starts; null if unknown. */
  get program(): string | null {
    return unitParts(this.text ?? '').program;
  }

  /** One line for each program that the service needs and cannot find, and for its own program if that was removed. */
  missing(): string[] {
    const text = this.text ?? '';
    const { program } = this;
    const gone = program !== null && !existsSync(program) ? [`its program ${program} is gone`] : [];
    return [...gone, ...this.#missingPrograms(text)];
  }

  #missingPrograms(text: string): string[] {
    const { path } = unitParts(text);
    if (path === null) return [];
    const env = { ...this.env, PATH: path };
    return ['tmux', ...this.#clientPrograms()]
      .filter((name) => (name.startsWith('/') ? !existsSync(name) : onPath(name, env) === null))
      .map((name) => `the service will not find ${name}; install it, then: parley service install`);
  }

  /** The client programs of the configured sessions. */
  #clientPrograms(): string[] {
    try {
      const config = ControlFile.of(this.env);
      const { command } = config.read();
      return [...new Set(config.sessions().map(([, { client }]) => command[client] ?? client))];
    } catch {
      // The server itself reports an invalid file.
      return [];
    }
  }

  #write(text: string, file: UnitState['file'], report: ServiceReport): void {
    try {
      mkdirSync(dirname(this.path), { recursive: true });
      if (file === 'foreign' || file === 'changed') {
        if (existsSync(this.#aside))
          throw new Refusal('name_taken', `${this.#aside} is there already; move it away (nothing was changed)`);
        renameSync(this.path, this.#aside);
        report.done.push(`kept the file that was there as ${this.#aside}`);
      }
      replaceFile(this.path, text, { flush: true });
      chmodSync(this.path, 0o644);
      report.done.push(`wrote ${this.path}`);
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw explained(error, this.path, 'the service was not installed');
    }
  }

  /** Makes systemd start the unit that was written. */
  async #begin(isNew: boolean, report: ServiceReport): Promise<void> {
    const before = this.#managed();
    if (!before.answers) {
      report.notes.push(
        `${before.why}; when it does: systemctl --user daemon-reload && systemctl --user enable --now ccc`,
        'without systemd: parley up --with control --detach',
      );
      return;
    }
    if (isNew || !this.#isRead(before) || before.isOld) this.#systemctl('daemon-reload');
    const managed = this.#managed();
    if (!this.#isRead(managed)) return void report.notes.push(this.#notRead(managed));
    const other = daemonNotice(serverLock(this.#places));
    if (other && other.pid !== managed.pid) {
      this.#systemctl('enable', SYSTEMD_UNIT);
      report.done.push('the service starts at your next log-in');
      report.notes.push(`a control server runs already (pid ${other.pid}); end it, then: systemctl --user start ccc`);
    } else if (managed.active !== 'active' || !managed.isEnabled) {
      this.#forgetFailure(managed.active);
      this.#systemctl('enable', '--now', SYSTEMD_UNIT);
      await this.#awaitAnswer('started', report);
    } else if (isNew) {
      this.#systemctl('restart', SYSTEMD_UNIT);
      await this.#awaitAnswer('restarted', report);
    } else report.done.push('the service runs');
  }

  /** Resets the failure count: otherwise systemd does not start a unit that failed too often, even after a repair. */
  #forgetFailure(active: string): void {
    if (active === 'failed') this.#systemctl('reset-failed', SYSTEMD_UNIT);
  }

  async #awaitAnswer(verb: string, report: ServiceReport): Promise<void> {
    const { socket } = this.#places;
    for (const end = Date.now() + START_MS; Date.now() < end; await Bun.sleep(50)) {
      if (await controlAnswers(socket)) return void report.done.push(`${verb} the service; it answers on ${socket}`);
    }
    report.notes.push(`${verb} the service, but nothing answers on ${socket}; see: parley service logs`);
  }

  #restore(report: ServiceReport): void {
    if (lstatSync(this.#aside, { throwIfNoEntry: false })) {
      renameSync(this.#aside, this.path);
      report.done.push(`restored ${this.path}, which was there before`);
      report.notes.push('to start that one: systemctl --user enable --now ccc');
      return;
    }
    if (this.platform === 'darwin') return;
    const folder = dirname(this.path);
    // If `disable` ran, it has removed this link.
    rmSync(`${folder}/default.target.wants/${SYSTEMD_UNIT}`, { force: true });
    for (const one of [`${folder}/default.target.wants`, folder, dirname(folder)]) {
      try {
        rmdirSync(one);
      } catch {
        // The folder has other files, or does not exist.
      }
    }
  }

  /** Does this systemd read our file? One with another home must not act on another unit of the same name. */
  #isRead(managed: Managed): managed is Extract<Managed, { answers: true }> {
    return managed.answers && managed.file !== '' && sameFile(managed.file, this.path);
  }

  #notRead(managed: Managed): string {
    if (!managed.answers) return managed.why;
    return managed.file === ''
      ? `systemd does not find ${this.path}; is HOME the home of this account?`
      : `systemd reads ${managed.file} instead of ${this.path}`;
  }

  #managed(): Managed {
    if (this.platform === 'darwin') return { answers: false, why: 'launchd was not asked' };
    if (onPath('systemctl', this.env) === null) return { answers: false, why: 'there is no systemctl here' };
    const asked = 'FragmentPath,ActiveState,UnitFileState,MainPID,NeedDaemonReload';
    const { ok, out, said } = this.#run('show', SYSTEMD_UNIT, `--property=${asked}`);
    if (!ok) return { answers: false, why: `systemctl --user does not answer (${said})` };
    const facts = new Map(out.split('\n').map((line) => line.split(/=(.*)/s) as [string, string]));
    return {
      answers: true,
      file: facts.get('FragmentPath') ?? '',
      active: facts.get('ActiveState') ?? 'unknown',
      isEnabled: facts.get('UnitFileState') === 'enabled',
      pid: Number(facts.get('MainPID')) || null,
      isOld: facts.get('NeedDaemonReload') === 'yes',
    };
  }

  #systemctl(...words: string[]): void {
    const { ok, said } = this.#run(...words);
    if (!ok) throw new Refusal('storage_failed', `systemctl --user ${words.join(' ')} failed: ${said}`);
  }

  #run(...words: string[]): { ok: boolean; out: string; said: string } {
    const done = Bun.spawnSync(['systemctl', '--user', ...words], {
      env: { ...this.env, ...runtimeFolder(this.env), SYSTEMD_PAGER: '', LC_ALL: 'C' },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
      timeout: SYSTEMCTL_MS,
    });
    const err = done.stderr.toString().trim().split('\n')[0] ?? '';
    return { ok: done.exitCode === 0, out: done.stdout.toString(), said: visibleLine(err, 300) || 'no reason given' };
  }
}

/** Why the service may end, and the command that keeps it. The user must type it, because it changes the machine. */
export const LINGER =
  'lingering is off, so the service and its sessions end when you log out; to keep them: loginctl enable-linger $USER';

/** Do this user's services run while nobody is logged in? */
export function lingers(folder = LINGER_FOLDER): boolean {
  return process.platform === 'darwin' || existsSync(`${folder}/${userInfo().username}`);
}

export function notInstalled(path: string): Refusal {
  return new Refusal('not_found', `no service is installed (no ${path}); \`parley service install\` does it`);
}

/** The variable that systemctl needs to find its bus: a shell of `su` or cron lacks it. */
function runtimeFolder(env: Env): Env {
  const folder = `/run/user/${process.getuid?.() ?? ''}`;
  return env['XDG_RUNTIME_DIR'] || !existsSync(folder) ? {} : { XDG_RUNTIME_DIR: folder };
}

function sameFile(a: string, b: string): boolean {
  return realPath(a) === realPath(b);
}
