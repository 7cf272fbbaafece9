import { Database } from 'bun:sqlite';
import { aMessage, bob, copiesFor } from '../../test/support/mail.ts';
import { notMeasured, beside } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { BODY, LEASE, openMailroom, TAKEN } from '../mailroom.ts';
import type { Mailroom } from '../mailroom.ts';
import { interleave } from '../measure.ts';

const FEW = 10_000;
const MANY = 1_000_000;
const FLOOR = 'the same at 10,000';

/** The acts that are measured with a journal that is a hundred times as long, and how much slower each may be. */
const ACTS: { what: string; limit: number; rounds: number; act: (room: Mailroom) => Promise<void> }[] = [
  { what: 'send', limit: 2, rounds: 200, act: send },
  { what: 'take', limit: 2, rounds: 200, act: take },
  {
    what: 'a page of history',
    limit: 2,
    rounds: 200,
    act: async ({ journal }) => void (await journal.history({ limit: 20 })),
  },
  {
    what: "a page of one agent's history",
    limit: 2,
    rounds: 200,
    act: async ({ journal }) => void (await journal.history({ agent: bob, limit: 20 })),
  },
  { what: 'newest-first search for a word in one of 1,000 messages', limit: 5, rounds: 60, act: searchFor('rollback') },
  {
    what: 'newest-first search for a word in every tenth message',
    limit: 5,
    rounds: 30,
    act: searchFor('deploy'),
  },
  {
    what: 'newest-first search for two words',
    limit: 5,
    rounds: 30,
    act: searchFor('deploy rollback'),
  },
];

export async function historyFigure(bench: Bench): Promise<Row[]> {
  const title = (what: string): string => `${what}, 1,000,000 messages in the ledger`;
  if (bench.quick) return ACTS.map(({ what, limit }) => notMeasured(title(what), FLOOR, limit, 'left out by --quick'));
  bench.tell('building a ledger of 1,000,000 messages …');
  const few = await longRoom(bench.fresh(), FEW);
  const many = await longRoom(bench.fresh(), MANY);
  const rows: Row[] = [];
  for (const { what, limit, rounds, act } of ACTS) {
    const times = await interleave(rounds, { few: () => act(few), many: () => act(many) });
    rows.push(beside(title(what), FLOOR, limit, times.many, times.few));
  }
  await few.journal.close();
  await many.journal.close();
  return rows;
}

async function send({ mailboxes }: Mailroom): Promise<void> {
  await mailboxes.put({ message: aMessage({ body: BODY }), copies: copiesFor(bob) });
}

/** Takes a message that an earlier send left. */
async function take({ mailboxes }: Mailroom): Promise<void> {
  const [id] = await mailboxes.ids(bob);
  if (!id) throw new Error('nothing waits');
  const claim = await mailboxes.claim(bob, [id], LEASE);
  await mailboxes.settle(claim, [id], TAKEN);
}

function searchFor(words: string): (room: Mailroom) => Promise<void> {
  return async ({ journal }) => {
    const rows = await journal.search(words, { limit: 20 });
    if (rows.length === 0) throw new Error(`nothing was found for ${words}`);
  };
}

/** A home whose journal has a long history, all of it settled and indexed. Written with SQL: as sends it would take an hour. */
async function longRoom(root: string, count: number): Promise<Mailroom> {
  const room = await openMailroom(root);
  await room.journal.close();
  const db = new Database(`${root}/ledger.db`, { strict: true });
  db.run('PRAGMA synchronous = OFF');
  db.run('PRAGMA cache_size = -500000');
  db.run('BEGIN IMMEDIATE');
  db.run(MESSAGES, [count]);
  db.run(COPIES);
  db.run("INSERT INTO words (rowid, body) SELECT seq, json_extract(json, '$.body') FROM messages");
  db.run("INSERT INTO meta VALUES ('indexed', ?)", [String(count)]);
  db.run('COMMIT');
  db.run('PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
  return openMailroom(root);
}

const UUID = `lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' ||
  substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))`;
const WORDS = Array.from({ length: 8 }, () => `' word' || (abs(random()) % 20000)`).join(' || ');

/** Bodies of words from a list of 20,000; one in ten has a common word, one in a thousand a rare one. */
const MESSAGES = `
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?),
  made AS MATERIALIZED (
    SELECT i, ${UUID} AS id, 'agent' || (i % 20) AS sender, 1700000000000 + i * 1000 AS at,
      'note ' || i || ${WORDS} || iif(i % 10 = 0, ' deploy', '') || iif(i % 1000 = 0, ' rollback', '') AS body FROM n
  )
  INSERT INTO messages (seq, id, sender, root, at, json)
  SELECT i, id, sender, id, at, json_object('id', id, 'from', sender, 'to', '@bob', 'body', body, 'priority', 'normal',
    'ts', strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch')) FROM made`;

const COPIES = `
  INSERT INTO copies (seq, mailbox, state, attention, disposition, settled_at, settled_by)
  SELECT seq, iif(seq % 2, 'bob', 'carol'), 2, 'to_me must_respond buffered direct_message', 'acknowledged', at, '{"by":"bench"}'
  FROM messages`;
