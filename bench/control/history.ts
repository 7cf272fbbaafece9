import { Database } from 'bun:sqlite';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';

const FILE_BYTES = 4 * 2 ** 20;
const TEXT = 'I looked at the retry test: it waits for a file that nobody writes. '.repeat(7);

/** Hourly files as an earlier ccc left them, of about so many bytes in all. Its ids were neither unique nor sorted. */
export function fillFiles(home: string, topics: number, bytes: number): void {
  const line = (id: number): string => `${JSON.stringify({ id, ts: 1_700_000_000 + id, from: 'api', text: TEXT })}\n`;
  const count = Math.floor(FILE_BYTES / line(100_000).length);
  const template = Array.from({ length: count }, (_, n) => line(n + 1)).join('');
  const files = Math.ceil(bytes / topics / template.length);
  let first = '';
  for (let topic = 1; topic <= topics; topic += 1) {
    const folder = `${home}/.ccc/history/${topic}/messages`;
    mkdirSync(folder, { recursive: true });
    for (let n = 0; n < files; n += 1) {
      const path = `${folder}/${new Date(1_600_000_000_000 + n * 3_600_000).toISOString().slice(0, 13).replace('T', '-')}.jsonl`;
      if (first) copyFileSync(first, path);
      else writeFileSync((first = path), template);
    }
  }
}

/** The same in the journal of a home that a server has opened before: what our own server stored, and wrote into its files. */
export function fillJournal(home: string, sessions: readonly string[], bytes: number): void {
  const journal = new Database(`${home}/.parley/ledger.db`);
  journal.run('PRAGMA synchronous = OFF');
  const each = Math.ceil(bytes / sessions.length / TEXT.length);
  const insert = journal.query(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $each)
     INSERT INTO session_lines (session, sender, ts, text, unexported) SELECT $session, 'api', 1700000000 + i, $text, 0 FROM n`,
  );
  for (const session of sessions) insert.run({ $each: each, $session: session, $text: TEXT });
  journal.close();
}
