// The file in which OpenCode keeps its conversations, with the tables and columns that Parley reads.
import { Database } from 'bun:sqlite';
import { OpenCodeRecord } from '../../src/clients/opencode/record.ts';
import { quickFolder } from './quick-home.ts';

const opened: { close(): void }[] = [];
/** For `afterEach`. */
export function closeOpenCodeFiles(): void {
  for (const one of opened.splice(0)) one.close();
}

/** The file of an OpenCode 1.18, with the tables and columns that are read. */
export function anOpenCodeFile(folder = quickFolder()) {
  const path = `${folder}/opencode.db`;
  const db = new Database(path, { create: true });
  const record = new OpenCodeRecord(path);
  opened.push(db, record);
  db.run('PRAGMA journal_mode = WAL');
  db.run('CREATE TABLE session (id text, parent_id text, directory text, time_updated integer, time_archived integer)');
  db.run('CREATE TABLE message (id text, session_id text, time_created integer, time_updated integer, data text)');
  db.run('CREATE TABLE part (id text, message_id text, data text)');
  const at = Date.now() - 60_000;
  const parts = (id: string, ...texts: (string | object)[]): void => {
    for (const [n, text] of texts.entries()) {
      const data = typeof text === 'string' ? { type: 'text', text } : text;
      db.query('INSERT INTO part VALUES (?, ?, ?)').run(`prt_${id}_${n}`, id, JSON.stringify(data));
    }
  };
  const message = (id: string, data: object, session = 's'): void => {
    db.query('DELETE FROM message WHERE id = ?').run(id);
    db.query('INSERT INTO message VALUES (?, ?, ?, ?, ?)').run(id, session, at, at, JSON.stringify(data));
  };
  return {
    db,
    record,
    at,
    message,
    parts,
    said: (id: string, text: string, session = 's'): void => {
      message(id, { role: 'user', time: { created: at } }, session);
      parts(id, text);
    },
    answers: (id: string, parentID: string, fields: object, text = ''): void => {
      message(id, { role: 'assistant', parentID, time: { created: at, completed: at + 1 }, ...fields });
      if (text) parts(id, { type: 'step-start' }, text, { type: 'step-finish' });
    },
    /** In short, as in the tests of other clients; and the place behind it. */
    read(since: string, live = { startedAt: 0 as number | null, isIdle: false }, conversation = 's') {
      const { events, next } = record.events(since, conversation, live);
      const short = events.map((event) =>
        event.kind === 'prompt' ? `+ ${event.text}` : `${event.shared ? '&' : '='} ${event.how}: ${event.text}`,
      );
      return { events: short, next };
    },
  };
}
