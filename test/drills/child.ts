/** A process that a drill started. It ends by itself, or because we kill that very one. */
export interface Child {
  pid: number;
  /** Everything that it said, one JSON value a line. */
  said: Promise<Fact[]>;
  /** Resolves when it stands ready; then it waits for `go`. */
  ready: Promise<void>;
  go(): void;
  /** Tells it that it may end. */
  stop(): void;
  kill(): void;
  /** True if it was killed. */
  ended: Promise<boolean>;
}

export type Fact = Record<string, string | number | boolean>;

/** Starts one of the `*.child.ts` beside this file with a plan that it reads from its arguments. */
export function startChild(file: string, plan: object): Child {
  const child = Bun.spawn([process.execPath, `${import.meta.dir}/${file}`, JSON.stringify(plan)], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
    // The runtime's own cache would write into the user's home.
    env: { ...process.env, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
  });
  const { promise: ready, resolve: isReady } = Promise.withResolvers<void>();
  const said = listen(child.stdout, isReady);
  return {
    pid: child.pid,
    said,
    ready,
    go: () => {
      void child.stdin.write('go\n');
      void child.stdin.flush();
    },
    stop: () => void child.stdin.end(),
    kill: () => child.kill('SIGKILL'),
    ended: child.exited.then((code) => {
      if (child.signalCode === null && code !== 0) throw new Error(`${file} failed with ${code}`);
      return child.signalCode === 'SIGKILL';
    }),
  };
}

async function listen(stream: ReadableStream<Uint8Array>, isReady: () => void): Promise<Fact[]> {
  const decoder = new TextDecoder();
  let heard = '';
  for await (const chunk of stream) {
    heard += decoder.decode(chunk, { stream: true });
    if (heard.includes('"ready"')) isReady();
  }
  // Anyone who waits for a child that died early must not wait for ever.
  isReady();
  // A killed child may have been cut off in the middle of a line.
  return heard
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Fact);
}
