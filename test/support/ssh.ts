// A real sshd on loopback, for the account that runs the tests, and remote hosts behind it. Each host is a separate home with its own tmux
// server and its own stand-in for Claude Code.
//
//   const sshd = await Sshd.start(rig.home);           // the rig's `ssh` connects to it for any host name that ends with .test
//   const far = sshd.host();                           // far.entry: for "hosts" in ~/.ccc.json; far.claude: the stand-in there
//   await sshd.drop();                                 // closes the port and cuts every connection
//   await sshd.open();                                 // listens again
import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import type { Subprocess } from 'bun';
import { isProcessAlive } from '../../src/platform/process.ts';
import { ClaudeTui } from './claude-tui.ts';
import { PARLEY } from './program.ts';
import { within } from './within.ts';

const SSHD = '/usr/sbin/sshd';
/** The reason why tests with sshd cannot run here; null if they can. */
export const noSshd = [SSHD, '/usr/bin/ssh'].every(existsSync) ? null : 'there is no OpenSSH server here';

export interface FarHost {
  claude: ClaudeTui;
  entry: { address: string; command: string; projects_dir: string };
  /** Makes a folder of this name in the host's home. */
  folder(name: string): string;
}

export class Sshd {
  #server: Subprocess | null = null;
  readonly #hosts: ClaudeTui[] = [];

  private constructor(
    readonly folder: string,
    readonly port: number,
  ) {}

  /** `home`: the home of the rig, where `bin/ssh` is written. */
  static async start(home: string): Promise<Sshd> {
    // As root, sshd needs this folder for its unprivileged process. Usually the system makes it at boot.
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    const folder = `${home}/sshd`;
    mkdirSync(folder, { mode: 0o700 });
    const sshd = new Sshd(folder, await freePort());
    sshd.key('host');
    sshd.key('user');
    writeFileSync(`${folder}/authorized_keys`, readFileSync(`${folder}/user.pub`), { mode: 0o600 });
    sshd.trust();
    writeFileSync(`${folder}/sshd_config`, sshd.#serverConfig());
    writeFileSync(`${folder}/ssh_config`, sshd.#clientConfig());
    const wrapper = `#!/bin/sh\necho "$*" >> '${folder}/calls'\nexec /usr/bin/ssh -F '${folder}/ssh_config' "$@"\n`;
    writeFileSync(`${home}/bin/ssh`, wrapper);
    chmodSync(`${home}/bin/ssh`, 0o755);
    await sshd.open();
    return sshd;
  }

  /** Makes a new key of this name, and replaces the old one. */
  key(name: 'host' | 'user'): void {
    const path = `${this.folder}/${name}`;
    Bun.spawnSync(['rm', '-f', path, `${path}.pub`]);
    const made = Bun.spawnSync(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', path]);
    if (made.exitCode !== 0) throw new Error(made.stderr.toString());
  }

  /** Writes the host's current key to the user's known hosts. */
  trust(): void {
    const [kind = '', key = ''] = readFileSync(`${this.folder}/host.pub`, 'utf8').split(' ');
    appendFileSync(`${this.folder}/known_hosts`, `[127.0.0.1]:${this.port} ${kind} ${key}\n`);
  }

  /** The arguments of each start of ssh. */
  calls(): string[] {
    const path = `${this.folder}/calls`;
    return existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  }

  host(): FarHost {
    const claude = new ClaudeTui();
    this.#hosts.push(claude);
    const words = Object.entries(claude.env).map(([name, value]) => `${name}='${value}'`);
    const home = claude.env['HOME'] ?? '';
    return {
      claude,
      entry: {
        address: `far${this.#hosts.length}.test`,
        command: `env ${words.join(' ')} '${PARLEY}'`,
        projects_dir: '~/projects',
      },
      folder(name) {
        mkdirSync(`${home}/projects/${name}`, { recursive: true });
        return `${home}/projects/${name}`;
      },
    };
  }

  async open(): Promise<void> {
    const log = `${this.folder}/sshd.log`;
    writeFileSync(log, '');
    this.#server = Bun.spawn([SSHD, '-D', '-f', `${this.folder}/sshd_config`, '-E', log], {
      stdio: [null, null, null],
    });
    await within(20_000, async () => {
      if (this.#server?.exitCode !== null) throw new Error(readFileSync(log, 'utf8'));
      return readFileSync(log, 'utf8').includes('Server listening');
    });
  }

  /** Closes the port and cuts every connection. Programs that were started over ssh keep running. */
  async drop(): Promise<void> {
    const pid = this.#server?.pid ?? 0;
    const all = [pid, ...below(pid)];
    for (const one of all) kill(one);
    await within(20_000, async () => !all.some(isProcessAlive));
    this.#server = null;
  }

  async close(): Promise<void> {
    if (this.#server) await this.drop();
    for (const claude of this.#hosts) await claude.close();
  }

  #serverConfig(): string {
    return [
      `ListenAddress 127.0.0.1:${this.port}`,
      `HostKey ${this.folder}/host`,
      `AuthorizedKeysFile ${this.folder}/authorized_keys`,
      'PidFile none',
      'StrictModes no',
      'UsePAM no',
      'PermitRootLogin yes',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      '',
    ].join('\n');
  }

  #clientConfig(): string {
    return [
      'Host *.test',
      '  HostName 127.0.0.1',
      `  Port ${this.port}`,
      `  IdentityFile ${this.folder}/user`,
      '  IdentitiesOnly yes',
      `  UserKnownHostsFile ${this.folder}/known_hosts`,
      '',
    ].join('\n');
  }
}

/** The sshd processes below another, without the programs that they started for callers. */
function below(pid: number): number[] {
  const children = readOf(`/proc/${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number);
  return children
    .filter((child) => readOf(`/proc/${child}/comm`).startsWith('sshd'))
    .flatMap((child) => [child, ...below(child)]);
}

/** The text of a file in /proc; empty if its process has ended. */
function readOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended when another process was killed.
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
