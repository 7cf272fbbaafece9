import { it } from 'bun:test';
import type { AgentName } from '../../src/core/names.ts';
import { inboxOf } from './c2c-broker.ts';

/**
 * A plain script that shares a broker directory. It knows only the original's rules: lock with `lockf`, read, write another file, rename.
 */
const SCRIPT = `
import fcntl, json, os, sys, time

act, path, argument = sys.argv[1], sys.argv[2], sys.argv[3]
lock = open(path[:-len("json")] + "lock", "w")

def change(how):
    fcntl.lockf(lock, fcntl.LOCK_EX)
    try:
        try:
            with open(path) as file:
                entries = json.load(file)
        except FileNotFoundError:
            entries = []
        changed = how(entries)
        if changed is not None:
            beside = path + ".tmp." + str(os.getpid())
            with open(beside, "w") as file:
                json.dump(changed, file)
            os.rename(beside, path)
        return entries
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)

def add(count, said):
    for n in range(count):
        entry = {"from_alias": "script", "to_alias": "bob", "content": said + str(n), "ts": time.time()}
        change(lambda entries: entries + [entry])

def drain():
    taken = change(lambda entries: [] if entries else None)
    for entry in taken:
        print(json.dumps(entry), flush=False)
    sys.stdout.flush()

if act == "add":
    count, said = argument.split(",")
    print('{"ready":true}', flush=True)
    sys.stdin.readline()
    add(int(count), said)
elif act == "drain":
    drain()
elif act == "drain until told":
    import select
    print('{"ready":true}', flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        drain()
    drain()
elif act == "hold":
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print('{"held":true}', flush=True)
    sys.stdin.readline()
    print('{"released":%f}' % time.time(), flush=True)
    fcntl.lockf(lock, fcntl.LOCK_UN)
elif act == "try":
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print('{"free":true}')
    except OSError:
        print('{"free":false}')
`;

/** Without Python, the tests that need it are skipped by name. */
export const itWithScripts = Bun.which('python3') ? it : it.skip;

export type Told = Record<string, unknown>;

export interface Script {
  pid: number;
  /** Resolves when it has said its first word. */
  ready: Promise<void>;
  /** The word that it waits for. */
  go(): void;
  kill(): void;
  /** Everything that it said, one JSON value a line. */
  told: Promise<Told[]>;
}

export function startScript(
  act: 'add' | 'drain' | 'drain until told' | 'hold' | 'try',
  path: string,
  argument = '',
): Script {
  const child = Bun.spawn(['python3', '-c', SCRIPT, act, path, argument], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const { promise: ready, resolve: isReady } = Promise.withResolvers<void>();
  return {
    pid: child.pid,
    ready,
    go: () => {
      void child.stdin.write('\n');
      void child.stdin.flush();
    },
    kill: () => child.kill('SIGKILL'),
    told: (async () => {
      let heard = '';
      const decoder = new TextDecoder();
      for await (const chunk of child.stdout) {
        heard += decoder.decode(chunk, { stream: true });
        isReady();
      }
      isReady();
      const code = await child.exited;
      if (code !== 0 && child.signalCode === null) throw new Error(`the script failed (${code})`);
      return heard
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Told);
    })(),
  };
}

/** What a script takes out of an inbox at one go. */
export async function drainedByScript(root: string, mailbox: AgentName): Promise<Told[]> {
  return startScript('drain', inboxOf(root, mailbox)).told;
}
