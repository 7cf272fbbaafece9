import { describe, expect, it } from 'bun:test';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { c2cHookScript } from '../src/delivery/c2c-hook-script.ts';
import { SessionRow } from '../src/protocol/c2c.ts';
import type { AgentName } from '../src/protocol/names.ts';
import { BrokerFiles } from '../src/storage/c2c/files.ts';
import { AgentExtras } from '../src/storage/directory/directory.ts';
import { Brokerage } from './support/c2c.ts';
import { temporaryHome } from './support/home.ts';

/** What runs at every send, every look and every tool call. Each file is read from disk, compiled and run at every start. */
const HOT = [
  'src/cli/main.ts',
  'src/cli/parley.ts',
  ...['send', 'reply', 'inbox', 'take', 'drain', 'hook', 'watch'].map((name) => `src/cli/commands/${name}.ts`),
  'src/cli/dialects/bch.ts',
  ...['send', 'inbox', 'drain', 'read', 'watch'].map((name) => `src/cli/dialects/bch/${name}.ts`),
  'src/cli/dialects/c2c.ts',
  ...['send', 'poll-inbox', 'peek-inbox', 'monitor', 'hook', 'oc-plugin-drain'].map(
    (name) => `src/cli/dialects/c2c/${name}.ts`,
  ),
];

/** What only a relay, or whoever talks to one, may pay for. */
const COLD = [
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

it.each(['poll-inbox', 'hook'])('c2c %s imports no ledger before it knows that something may wait', (name) => {
  const opened = [...importsOf(`src/cli/dialects/c2c/${name}.ts`)].filter(([path]) =>
    /^(bun:sqlite|src\/storage\/(ledger|spool)\/|src\/cli\/wiring)/.test(path),
  );
  expect(opened.map(([, chain]) => chain.join(' → '))).toEqual([]);
});

/** What a send into a broker does without: other homes, readers, rooms, registrations, and what the runtime reads for one function. */
const NOT_FOR_C2C_SEND = [
  /^src\/storage\/spool\/(?:maildir|c2c-broker-(?:heal|take|found))/,
  /^src\/storage\/directory\/(?:files|record-files|watched)\.ts$/,
  /^src\/storage\/c2c\/files-(?:register|mail|pending)\.ts$/,
  /^src\/flow\/(?:settle|deliver|c2c\/rooms)\.ts$/,
  /^src\/cli\/(?:origin|wiring)\.ts$/,
  /^node:(?:path|buffer|os|url)$/,
];

it('c2c send imports nothing that only other homes, readers, rooms or registrations need', () => {
  const read = ['cli/dialects/c2c.ts', 'cli/dialects/c2c/send.ts', 'cli/wiring-broker.ts'];
  const needless = read
    .flatMap((path) => [...importsOf(`src/${path}`)])
    .filter(([path]) => NOT_FOR_C2C_SEND.some((pattern) => pattern.test(path)));
  expect(needless.map(([, chain]) => chain.join(' → '))).toEqual([]);
});

const STRACE = Bun.which('strace');

it.skipIf(!STRACE)('c2c send waits for the disk twice, and reads the registry and the inbox once', async () => {
  const c2c = await new Brokerage().registered(['alice', 'bob']);
  await c2c.said(['send', 'bob', 'the first makes the ledger'], { session: 's-alice' });
  const log = `${c2c.program.home}/calls`;
  const traced = [STRACE ?? '', '-f', '-e', 'trace=/^(f(data)?sync|openat?)$', '-o', log];
  const sent = [process.execPath, 'src/cli/main.ts', 'c2c', 'send', 'bob', 'hello'];
  const child = Bun.spawn([...traced, ...sent], { env: c2c.env({ session: 's-alice' }), stdout: 'ignore' });
  expect(await child.exited).toBe(0);
  const calls = readFileSync(log, 'utf8').split('\n');
  const count = (pattern: RegExp): number => calls.filter((call) => pattern.test(call)).length;
  expect({
    flushes: count(/ f(?:data)?sync\(/),
    registry: count(/\/registry\.json"/),
    inbox: count(/\/s-bob\.inbox\.json", O_RDONLY/),
  }).toEqual({ flushes: 2, registry: 1, inbox: 1 });
});

it('a session as we register it is read back without a schema being built', async () => {
  const root = temporaryHome();
  await new BrokerFiles(root, Date.now).register({ sessionId: 's-bob', alias: 'bob' as AgentName, pid: process.pid });
  const [row] = JSON.parse(readFileSync(`${root}/registry.json`, 'utf8')) as Record<string, unknown>[];
  expect({ row: SessionRow.isPlain?.(row), extras: AgentExtras.isPlain?.(row?.['parley']) }).toEqual({
    row: true,
    extras: true,
  });
});

it('the hook of c2c install comes to rest at an empty inbox within a few built-ins, before its first function', () => {
  const home = temporaryHome();
  mkdirSync(`${home}/sessions/s-bob`, { recursive: true });
  symlinkSync(`${home}/s-bob.inbox.json`, `${home}/sessions/s-bob/inbox`);
  symlinkSync(`${home}/held`, `${home}/sessions/s-bob/held`);
  const script = c2cHookScript({ folder: `${home}/sessions`, command: [`${home}/c2c`] });
  const event = Buffer.from(JSON.stringify({ session_id: 's-bob', hook_event_name: 'PostToolUse', tool_name: 'Bash' }));
  const { stderr, exitCode } = Bun.spawnSync(['bash', '-x', '-c', script], { stdin: event, env: {} });
  const steps = stderr
    .toString()
    .split('\n')
    .filter((line) => line.startsWith('+'));
  expect({ exitCode, last: steps.at(-1) }).toEqual({ exitCode: 0, last: '+ exit 0' });
  expect(steps.length).toBeLessThanOrEqual(20);
  expect(script.indexOf('exit 0')).toBeLessThan(script.indexOf('() {'));
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
