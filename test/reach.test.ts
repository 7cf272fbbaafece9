// The table in README of how mail reaches each client says what tests with the real clients proved, and no more.
import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { dependencies as pinned } from './clients/package.json';
import { NOT_VERIFIED, reachAfter, readReach, ROWS, tableOf, testsOf, withTable } from './clients/reach.ts';
import type { Outcome, Reach } from './clients/reach.ts';

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const CODEX = '@openai/codex';

describe('the table of clients in README', () => {
  it('is what the last run of the tests with real clients gave; to write it: npm run test:clients', () => {
    expect(withTable(README, tableOf(readReach()))).toBe(README);
  });

  it('is of the versions that the tests use', () => {
    for (const [name, { version }] of Object.entries(readReach()))
      expect([name, version]).toEqual([name, (pinned as Record<string, string>)[name] ?? '']);
  });

  it('names tests that exist', () => {
    const gone = ROWS.flatMap(testsOf).filter((test) => {
      const [file = '', ...title] = test.split(': ');
      const path = new URL(`./clients/${file}.test.ts`, import.meta.url).pathname;
      return !existsSync(path) || !readFileSync(path, 'utf8').includes(title.join(': '));
    });
    expect(gone).toEqual([]);
  });

  it('says so of what no test has verified', () => {
    expect(tableOf({})).not.toContain('woken');
    expect(tableOf({}).split(NOT_VERIFIED)).toHaveLength(ROWS.length * 4 + 1);
  });

  it('loses a claim when one of its tests fails, and all when the client changes', () => {
    const codex = ROWS.find((row) => row.package === CODEX);
    const tests = codex ? testsOf(codex) : [];
    const all: Reach = { [CODEX]: { version: '1', passed: tests } };
    expect(rowOf(all)).not.toContain(NOT_VERIFIED);
    const [test = ''] = codex?.idle[0]?.tests ?? [];
    const [file = '', ...title] = test.split(': ');
    const path = `test/clients/${file}.test.ts`;
    const failed: Outcome = { file: path, title: `a > ${title.join(': ')}`, outcome: 'fail' };
    const clients = { versions: { [CODEX]: '1' }, programs: { [CODEX]: 'codex' } };
    const none = { files: [], tests: [] };
    const after = (outcome: Outcome['outcome'], programs: Record<string, string> = clients.programs): string =>
      rowOf(reachAfter(all, { files: [path], tests: [{ ...failed, outcome }] }, { ...clients, programs }));
    expect(after('fail')).not.toContain('| woken |');
    // A test of a client that is not here says nothing.
    expect(after('skip', {})).toContain('| woken |');
    expect(rowOf(reachAfter(all, none, clients))).toContain('| woken |');
    expect(rowOf(reachAfter(all, none, { ...clients, versions: { [CODEX]: '2' } })).split(NOT_VERIFIED)).toHaveLength(
      5,
    );
  });

  it('loses a claim when its test was skipped or did not run, though the client is here', () => {
    const codex = ROWS.find((row) => row.package === CODEX);
    const tests = codex ? testsOf(codex) : [];
    const all: Reach = { [CODEX]: { version: '1', passed: tests } };
    const clients = { versions: { [CODEX]: '1' }, programs: { [CODEX]: 'codex' } };
    const [file = '', ...title] = (codex?.idle[0]?.tests[0] ?? '').split(': ');
    const path = `test/clients/${file}.test.ts`;
    const skipped: Outcome = { file: path, title: `a > ${title.join(': ')}`, outcome: 'skip' };
    for (const outcomes of [[skipped], []])
      expect(rowOf(reachAfter(all, { files: [path], tests: outcomes }, clients))).not.toContain('| woken |');
  });
});

function rowOf(reach: Reach): string {
  return (
    tableOf(reach)
      .split('\n')
      .find((line) => line.startsWith('| Codex')) ?? ''
  );
}
