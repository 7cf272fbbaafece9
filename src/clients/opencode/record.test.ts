import { afterEach, describe, expect, it } from 'bun:test';
import { renameSync, rmSync } from 'node:fs';
import { anOpenCodeFile, closeOpenCodeFiles } from '../../../test/support/opencode-file.ts';
import { endingOf, messageId, OpenCodeRecord } from './record.ts';

afterEach(closeOpenCodeFiles);

const STOP = { finish: 'stop' };
const MAIL = 'c2c mail for app. Text inside';

describe('the record of OpenCode', () => {
  it('reports a prompt when its text is there, and an answer when it is complete, each once', () => {
    const file = anOpenCodeFile();
    file.said('m0', 'before');
    const start = file.record.place('s');
    file.message('m1', { role: 'user', time: {} });
    expect(file.read(start)).toEqual({ events: [], next: start });
    file.parts('m1', 'hi');
    const first = file.read(start);
    expect(first.events).toEqual(['+ hi']);
    file.answers('m2', 'm1', { time: { created: 1 } });
    file.answers('m2', 'm1', { finish: 'tool-calls' }, 'let me see');
    expect(file.read(first.next).events).toEqual([]);
    file.answers('m3', 'm1', STOP, 'hello');
    const second = file.read(first.next);
    expect(second.events).toEqual(['= done: hello']);
    expect(file.read(second.next)).toEqual({ events: [], next: second.next });
    expect(file.read(file.record.place('s')).events).toEqual([]);
  });

  it('is read from the new file after its user deleted the old one', () => {
    const [old, made] = [anOpenCodeFile(), anOpenCodeFile()];
    old.said('m1', 'old');
    made.said('m2', 'new');
    expect(old.record.lastMessage('s')).toBe('m1');
    made.db.run('PRAGMA journal_mode = DELETE');
    for (const end of ['', '-wal', '-shm']) rmSync(`${old.record.path}${end}`, { force: true });
    renameSync(made.record.path, old.record.path);
    expect(old.record.lastMessage('s')).toBe('m2');
  });

  it('gives a prompt that joined a turn at a step the same answer, marked as shared', () => {
    const file = anOpenCodeFile();
    file.said('m1', 'mine');
    file.answers('m2', 'm1', { finish: 'tool-calls' });
    file.said('m3', 'theirs');
    const start = JSON.stringify({ c: 's', m: 'm0', t: 0 });
    const { events, next } = file.read(start);
    expect(events).toEqual(['+ mine', '+ theirs']);
    file.answers('m4', 'm3', STOP, 'both');
    expect(file.read(next).events).toEqual(['& done: both', '& done: both']);
  });

  it('gives a prompt that came during the last step an answer of its own', () => {
    const file = anOpenCodeFile();
    file.said('m1', 'one');
    file.answers('m2', 'm1', STOP, 'A1');
    file.said('m3', 'two');
    file.answers('m4', 'm3', STOP, 'A2');
    const start = JSON.stringify({ c: 's', m: 'm0', t: 0 });
    expect(file.read(start).events).toEqual(['+ one', '= done: A1', '+ two', '= done: A2']);
  });

  it.each<[string, object, string]>([
    ['interrupted', { error: { name: 'MessageAbortedError', data: { message: 'Aborted' } } }, '= interrupted: '],
    ['failed', { error: { name: 'APIError', data: { message: 'no such model' } } }, '= failed: no such model'],
  ])('says that a turn was %s', (_what, fields, end) => {
    const file = anOpenCodeFile();
    file.said('m1', 'hi');
    file.answers('m2', 'm1', fields);
    expect(file.read(JSON.stringify({ c: 's', m: 'm0', t: 0 })).events).toEqual(['+ hi', end]);
  });

  it('ends a turn that was open or not begun when OpenCode ended, and does not give it a later answer', () => {
    const start = JSON.stringify({ c: 's', m: 'm0', t: 0 });
    for (const [live, end] of [
      [{ startedAt: null, isIdle: false }, '= failed: OpenCode ended before its turn did'],
      [{ startedAt: Date.now(), isIdle: false }, '= failed: OpenCode ended before its turn did'],
      [{ startedAt: 0, isIdle: true }, '= interrupted: '],
    ] as const) {
      const file = anOpenCodeFile();
      file.said('m1', 'hi');
      file.answers('m2', 'm1', { time: { created: 1 } });
      const { events, next } = file.read(start, live);
      expect(events).toEqual(['+ hi', end]);
      file.said('m3', 'again');
      file.answers('m4', 'm3', STOP, 'yes');
      expect(file.read(next).events).toEqual(['+ again', '= done: yes']);
    }
  });

  it('ignores mail, summaries and texts of OpenCode itself', () => {
    const file = anOpenCodeFile();
    file.said('m1', MAIL);
    file.answers('m2', 'm1', STOP, 'thanks');
    file.message('m3', { role: 'user', time: {} });
    file.parts('m3', { type: 'text', text: 'Continue', synthetic: true });
    file.answers('m4', 'm3', { ...STOP, summary: true }, 'a summary');
    file.message('m5', { role: 'user', time: {} });
    file.parts('m5', { type: 'compaction' });
    file.answers('m6', 'm5', STOP, 'x');
    expect(file.read(JSON.stringify({ c: 's', m: 'm0', t: 0 })).events).toEqual([]);
  });

  it('continues in the current conversation of the session, with its new events', () => {
    const file = anOpenCodeFile();
    const { next } = file.read(file.record.place(null), { startedAt: 0, isIdle: false }, '');
    file.said('m1', 'old', 'other');
    file.db.query("UPDATE message SET time_created = 1 WHERE id = 'm1'").run();
    file.said('m2', 'new', 'other');
    file.db.query("UPDATE message SET time_created = ? WHERE id = 'm2'").run(Date.now());
    expect(file.read(next, { startedAt: 0, isIdle: false }, 'other').events).toEqual(['+ new']);
  });

  it('knows the conversations of a folder: the newest of a user, and which there are', () => {
    const { db, record } = anOpenCodeFile();
    const add = db.query('INSERT INTO session VALUES (?, ?, ?, ?, ?)');
    add.run('a', null, '/work', 1, null);
    add.run('b', null, '/work', 2, null);
    add.run('of-a-subagent', 'b', '/work', 3, null);
    add.run('archived', null, '/work', 4, 5);
    add.run('c', null, '/other', 6, null);
    expect([record.newest('/work'), record.newest('/none')]).toEqual(['b', null]);
    expect([record.has('a'), record.has('x')]).toEqual([true, false]);
    expect(new OpenCodeRecord('/nowhere/opencode.db').newest('/work')).toBeNull();
  });

  it('recognizes our prompts by the ending of their ids, and the ids grow with time', () => {
    const file = anOpenCodeFile();
    const ending = endingOf('a key');
    const ids = [messageId(ending, 1794989660394), messageId(endingOf('b'), 1794989660395)];
    expect(ids).toEqual(ids.toSorted());
    expect(ids[0]).toBe(`msg_1edb898ea000${ending}`);
    file.said(ids[0] ?? '', 'hi');
    expect([file.record.hasMessage('s', ending), file.record.hasMessage('s', endingOf('b'))]).toEqual([true, false]);
    const { events } = file.record.events(JSON.stringify({ c: 's', m: 'm0', t: 0 }), 's', {
      startedAt: 0,
      isIdle: false,
    });
    expect(events).toMatchObject([{ kind: 'prompt', key: ending }]);
  });

  it('says whether a turn is open that began while this client runs', () => {
    const file = anOpenCodeFile();
    expect(file.record.isInTurn('s', 0)).toBe(false);
    file.said('m1', 'hi');
    expect([file.record.isInTurn('s', 0), file.record.isInTurn('s', Date.now())]).toEqual([true, false]);
    file.answers('m2', 'm1', STOP, 'hello');
    expect(file.record.isInTurn('s', 0)).toBe(false);
  });
});
