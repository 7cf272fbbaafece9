import type { Env } from '../core/env.ts';
import { visibleLine } from '../core/gate.ts';

/** How much of the end of stderr is kept: enough for the warning about a changed host key. */
const KEPT_STDERR = 8192;
/** Interval of ssh's keep-alives. A dead connection is noticed after three of them. */
const ALIVE_SECONDS = 5;

/** Limit for reading the last output of ssh after it has ended. */
const DRAIN_MS = 200;

/** The exit code of a shell that does not find the program. */
const NOT_THERE = 127;

/**
 * Options for the user's own OpenSSH, which uses the user's configuration, keys and known hosts. With them it asks nothing, gets no terminal,
 * forwards nothing and leaves no shared connection behind.
 */
const OPTIONS = [
  'BatchMode=yes',
  'ConnectTimeout=5',
  `ServerAliveInterval=${ALIVE_SECONDS}`,
  'ServerAliveCountMax=2',
  'ControlMaster=no',
  'ClearAllForwardings=yes',
  'RemoteCommand=none',
];

export interface SshTarget {
  /** As `ssh` takes it: `user@host`, or a name of the user's configuration. */
  address: string;
  /** The command for the host's shell. Other users can see it on both machines, so it must not hold the text of a prompt. */
  command: string;
  env: Env;
}

export interface SshHandler {
  receive(chunk: Uint8Array): void;
  /** Called once, when ssh has ended. `because` is the reason in one line. */
  ended(because: string): void;
}

/** One command on another host, with its standard input and output. It ends by `end`, or when this process ends and closes its input. */
export class SshProcess {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'pipe'>;
  #stderr = '';

  private constructor(
    program: string,
    readonly target: SshTarget,
    handler: SshHandler,
  ) {
    const { address, command, env } = target;
    const options = OPTIONS.flatMap((option) => ['-o', option]);
    this.#child = Bun.spawn([program, '-T', ...options, '--', address, command], {
      env,
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
      // Keep Ctrl-C from ssh: this program ends ssh when the running requests are done.
      detached: true,
    });
    void this.#follow(handler);
  }

  /** Starts ssh; null if ssh is not installed. */
  static start(target: SshTarget, handler: SshHandler): SshProcess | null {
    const program = Bun.which('ssh', { PATH: target.env['PATH'] ?? '' });
    return program === null ? null : new SshProcess(program, target, handler);
  }

  write(text: string): void {
    const { stdin } = this.#child;
    try {
      void stdin.write(text);
      // An error means that ssh has ended: `ended` reports it.
      void Promise.resolve(stdin.flush()).catch(() => {});
    } catch {
      // ssh has ended: `ended` reports it.
    }
  }

  end(): void {
    this.#child.kill('SIGTERM');
  }

  async #follow(handler: SshHandler): Promise<void> {
    const reading = this.#read(handler);
    const code = await this.#child.exited;
    // A process that ssh left behind may hold the pipes open.
    await Promise.race([reading, Bun.sleep(DRAIN_MS)]);
    handler.ended(this.#reason(code));
  }

  async #read(handler: SshHandler): Promise<void> {
    const { stdout, stderr } = this.#child;
    const errors = async (): Promise<void> => {
      for await (const chunk of stderr)
        this.#stderr = (this.#stderr + Buffer.from(chunk).toString()).slice(-KEPT_STDERR);
    };
    const output = async (): Promise<void> => {
      for await (const chunk of stdout) handler.receive(chunk);
    };
    await Promise.allSettled([errors(), output()]);
  }

  #reason(code: number): string {
    const { address, command } = this.target;
    const all = this.#stderr;
    const last =
      all
        .split(/[\r\n]+/)
        .findLast((line) => line.trim() !== '')
        ?.replace(/^ssh: /, '') ?? '';
    if (/REMOTE HOST IDENTIFICATION HAS CHANGED/.test(all))
      return `its host key has changed (${visibleLine(last)}); if you know why, run: ssh-keygen -R and the name that ssh ${address} prints`;
    if (last.startsWith('Host key verification failed'))
      return `its host key is not known (${last}); connect once by hand and check it: ssh ${address}`;
    if (code === NOT_THERE)
      return `${visibleLine(last) || `no ${command}`}; install Parley there, or set "command" of this host`;
    return visibleLine(last, 300) || `ssh ended with ${code}`;
  }
}
