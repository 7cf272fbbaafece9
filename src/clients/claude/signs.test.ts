import { describe, expect, it } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { startOf } from '../../sessions/process.ts';
import { ClaudeSigns } from './signs.ts';

describe('what Claude Code says of a session in its register', () => {
  it.each([
    [{ status: 'idle' }, 'idle', 'idle'],
    [{ status: 'busy' }, 'busy', 'busy'],
    [{ status: 'waiting', waitingFor: 'permission prompt' }, 'dialog', 'waiting: permission prompt'],
    [{ status: 'waiting', waitingFor: 'input needed' }, 'dialog', 'waiting: input needed'],
    [{ status: 'dreaming' }, 'unknown', 'dreaming'],
    [{}, 'starting', undefined],
  ])('%j is %s', async (said, state, detail) => {
    const sign = await registered({ ...said, statusUpdatedAt: 1234 }).latest();
    expect(sign).toEqual({ state, at: 1234, source: 'registry', pid: process.pid, ...(detail && { detail }) } as never);
  });

  it.each([
    ['its process has ended', { pid: 2 ** 22 - 3 }],
    ['its number belongs to another process now', { procStart: '1' }],
    ['it is another session', { sessionId: 'other' }],
    ['it has no terminal', { kind: 'bg' }],
  ])('is nothing when %s', async (_why, more) => {
    expect(await registered({ status: 'idle', ...more }).latest()).toBeNull();
  });

  it('is nothing where the register is missing, or not whole', async () => {
    const folder = temporaryHome();
    expect(await new ClaudeSigns(folder, 's').latest()).toBeNull();
    mkdirSync(`${folder}/sessions`);
    writeFileSync(`${folder}/sessions/${process.pid}.json`, '{"pid":');
    writeFileSync(`${folder}/sessions/notes.json`, '{}');
    expect(await new ClaudeSigns(folder, 's').latest()).toBeNull();
  });
});

function registered(more: Record<string, unknown>): ClaudeSigns {
  const folder = temporaryHome();
  mkdirSync(`${folder}/sessions`);
  const entry = {
    pid: process.pid,
    sessionId: 's',
    cwd: '/',
    kind: 'interactive',
    procStart: startOf(process.pid) ?? undefined,
    ...more,
  };
  writeFileSync(`${folder}/sessions/${process.pid}.json`, JSON.stringify(entry));
  return new ClaudeSigns(folder, 's');
}
