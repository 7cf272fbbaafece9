import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Word } from './agent.child.ts';

const CHILD = `${import.meta.dir}/agent.child.ts`;

/** The scripted agent in a pane of a tmux server of its own. */
export interface Agent {
  /** As a loop names it. */
  terminal: string;
  /** The next time that it says this word. */
  says: (word: Word) => Promise<Said>;
  close(): Promise<void>;
}

interface Said {
  /** On the shared clock. */
  at: number;
  text: string;
}

export async function startAgent(home: string, sign: string): Promise<Agent> {
  // The path of a socket must be short.
  const folder = mkdtempSync(`${tmpdir()}/wake-`);
  const waiting = new Map<string, (said: Said) => void>();
  const says: Agent['says'] = (word) => new Promise((resolve) => waiting.set(word, resolve));
  let rest = '';
  const server = Bun.listen({
    unix: `${folder}/told`,
    socket: {
      data: (_socket, bytes) => {
        const lines = (rest + bytes.toString()).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          const [word = '', at = '', ...words] = line.split(' ');
          waiting.get(word)?.({ at: Number(at), text: words.join(' ') });
          waiting.delete(word);
        }
      },
    },
  });
  const tmux = (...words: string[]): string => {
    const env = { ...process.env, TMUX: undefined, HOME: home, LC_ALL: 'C.UTF-8' };
    const done = Bun.spawnSync(['tmux', '-u', '-S', `${folder}/s`, '-f', '/dev/null', ...words], { env });
    if (!done.success) throw new Error(`tmux ${words[0]}: ${done.stderr.toString().trim()}`);
    return done.stdout.toString().trim();
  };
  const idle = says('idle');
  const size = ['-d', '-x', '120', '-y', '40', '-P', '-F', '#{pane_id}'];
  const pane = tmux('new-session', ...size, '--', 'env', process.execPath, CHILD, `${folder}/told`, sign);
  await idle;
  const close = async (): Promise<void> => {
    tmux('kill-server');
    server.stop(true);
    rmSync(folder, { recursive: true, force: true });
  };
  return { terminal: `tmux@${folder}/s:${pane}`, says, close };
}

/** What a process says, line by line. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
