import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** What runs at every send, every look and every tool call. Each file is read from disk, compiled and run at every start. */
const HOT = [
  'src/cli/main.ts',
  'src/cli/parley.ts',
  ...['send', 'reply', 'inbox', 'take', 'drain', 'hook', 'watch'].map((name) => `src/cli/commands/${name}.ts`),
  'src/cli/dialects/bch.ts',
  ...['send', 'inbox', 'drain', 'read', 'watch'].map((name) => `src/cli/dialects/bch/${name}.ts`),
];

/** What only a relay, or whoever talks to one, may pay for. */
const COLD = [
  /^hono(\/|$)/,
  /^node:(crypto|http|https|http2|net|tls|dns|worker_threads|child_process|util)$/,
  /^src\/doors\//,
  /^src\/cli\/(relay\/|doors|duty|detach|serving)/,
  /^src\/protocol\/tokens\.ts$/,
  /^src\/storage\/(rooms|relay)\//,
  /^src\/storage\/\w+\/(relay-client|watched|late-maildir|back-room)\.ts$/,
];

/** What only those pay for who answer for something: what is owed is entered when somebody asks, never by a send. */
const OWING = [
  /^src\/flow\/(host\/|(?:duty|react|reaction|claim|responders|defer|resolve|owe|say|tick|escalate|people|edit|why|leave)\.ts$)/,
  /^src\/flow\/(?:events|event-pages|sight)\.ts$/,
  /^src\/attention\/(?:ladder|outcome|reply-rules|responder|leave|hush|repeat|compose|topic|fallback)\.ts$/,
];

const transpiler = new Bun.Transpiler({ loader: 'ts' });

describe('a hot command', () => {
  it.each(HOT)('%s imports nothing that only a relay needs', (entry) => {
    const chains = importsOf(entry);
    expect(chains.size).toBeGreaterThan(2);
    const cold = [...chains].filter(([name]) => COLD.some((pattern) => pattern.test(name)));
    expect(cold.map(([, chain]) => chain.join(' → '))).toEqual([]);
  });
});

it.each(['send', 'take', 'drain', 'watch'])('parley %s imports nothing that only duties need', (name) => {
  const owing = [...importsOf(`src/cli/commands/${name}.ts`)].filter(([path]) =>
    OWING.some((pattern) => pattern.test(path)),
  );
  expect(owing.map(([, chain]) => chain.join(' → '))).toEqual([]);
});

/** Everything that is imported at the start, each with the way to it. What is imported only when it is needed does not count. */
function importsOf(entry: string): Map<string, string[]> {
  const chains = new Map<string, string[]>();
  const visit = (path: string, chain: string[]): void => {
    if (chains.has(path)) return;
    chains.set(path, [...chain, path]);
    if (!path.startsWith('src/') || !path.endsWith('.ts')) return;
    for (const { kind, path: target } of transpiler.scanImports(readFileSync(path, 'utf8').replace(/^#!.*/, ''))) {
      if (kind !== 'import-statement') continue;
      visit(target.startsWith('.') ? normalize(join(dirname(path), target)) : target, [...chain, path]);
    }
  };
  visit(entry, []);
  return chains;
}
