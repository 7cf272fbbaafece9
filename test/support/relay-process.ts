import { Caller } from './caller.ts';
import { PARLEY, Program } from './program.ts';
import { temporaryHome } from './home.ts';

/** The real program as a relay, on a home of its own, started again and again on it. */
export class RelayProcess {
  #child: Bun.Subprocess<'ignore', 'pipe', 'pipe'> | undefined;
  url = '';

  constructor(
    readonly home = temporaryHome(),
    readonly flags: string[] = [],
  ) {}

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** The exit code of the one that runs now, once it has ended. */
  get ended(): Promise<number> {
    return this.#child?.exited ?? Promise.resolve(0);
  }

  /** Starts it and waits until it listens. */
  async start(): Promise<this> {
    const child = Bun.spawn([PARLEY, 'relay', '--port', '0', ...this.flags], {
      argv0: 'parley',
      cwd: this.home,
      env: { ...new Program(this.home).env, BACKCHANNEL_HOME: this.home },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    let said = '';
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      said += decoder.decode(chunk, { stream: true });
      const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
      if (!url) continue;
      this.url = url;
      return this;
    }
    throw new Error(`the relay did not start: ${await new Response(child.stderr).text()}`);
  }

  kill(signal: 'SIGKILL' | 'SIGTERM'): void {
    this.#child?.kill(signal);
  }

  /** Anyone who has this token, at the relay that runs now. */
  as(token: string, name = ''): Caller {
    return new Caller(this.url, token, name);
  }
}
