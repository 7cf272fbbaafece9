/**
 * The journal's format, one step per version. A released step is never edited: a change is a new step.
 * `messages` has the messages, `copies` the state of each recipient's copy, `receipts` what else was proven about a copy.
 * `words` is the search index.
 * Rows are in order of arrival (`seq`), so that the newest pages stay in the cache however long the history is.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

  CREATE TABLE messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    key TEXT,
    root TEXT NOT NULL,
    at INTEGER NOT NULL,
    json TEXT NOT NULL,
    pruned INTEGER NOT NULL DEFAULT 0
  );
  CREATE UNIQUE INDEX messages_key ON messages (sender, key) WHERE key IS NOT NULL;
  CREATE INDEX messages_sender ON messages (sender, seq);
  CREATE INDEX messages_root ON messages (root, seq);

  CREATE TABLE copies (
    seq INTEGER NOT NULL,
    mailbox TEXT NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    attention TEXT NOT NULL,
    owner TEXT,
    until INTEGER,
    disposition TEXT,
    settled_at INTEGER,
    settled_by TEXT,
    keep INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (seq, mailbox)
  ) WITHOUT ROWID;
  CREATE INDEX copies_mailbox ON copies (mailbox, seq);
  CREATE INDEX copies_open ON copies (mailbox, seq) WHERE settled_at IS NULL;
  CREATE INDEX copies_held ON copies (state) WHERE state = 1;

  CREATE TABLE receipts (
    n INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    mailbox TEXT NOT NULL,
    step TEXT NOT NULL,
    at INTEGER NOT NULL,
    evidence TEXT NOT NULL
  );
  CREATE INDEX receipts_seq ON receipts (seq);

  CREATE VIRTUAL TABLE words USING fts5 (body, content = '', contentless_delete = 1);
  `,
  // Copies that are accepted before they have a file (see export-queue.ts), and obligations, here `duties` (see obligations.ts). The
  // export queue is a table of its own that is nearly always empty: a mark on each copy would make every heal read all waiting copies.
  `
  ALTER TABLE copies ADD COLUMN late INTEGER NOT NULL DEFAULT 0;

  CREATE TABLE unfiled (
    seq INTEGER NOT NULL,
    mailbox TEXT NOT NULL,
    drafted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (seq, mailbox)
  ) WITHOUT ROWID;

  -- AUTOINCREMENT writes a page of its own for every message. The highest number that was ever dropped is kept in meta instead,
  -- as \`dropped\`: a number is never given twice.
  CREATE TABLE numbered (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    key TEXT,
    root TEXT NOT NULL,
    at INTEGER NOT NULL,
    json TEXT NOT NULL,
    pruned INTEGER NOT NULL DEFAULT 0
  );
  INSERT INTO numbered SELECT * FROM messages;
  INSERT INTO meta SELECT 'dropped', seq FROM sqlite_sequence WHERE name = 'messages';
  DROP TABLE messages;
  ALTER TABLE numbered RENAME TO messages;
  CREATE UNIQUE INDEX messages_key ON messages (sender, key) WHERE key IS NOT NULL;
  CREATE INDEX messages_sender ON messages (sender, seq);
  -- Most messages begin an exchange and stay alone in it. Their own id leads to them; here each would cost a page of its own.
  CREATE INDEX messages_root ON messages (root, seq) WHERE root <> id;

  -- An open copy stands in \`copies_open\`, a settled one here: each in one of them, so that accepting touches a page less per copy.
  DROP INDEX copies_mailbox;
  CREATE INDEX copies_settled ON copies (mailbox, seq) WHERE settled_at IS NOT NULL;

  -- Who owes what: see duties.ts. What has ended is in no index but its own id, so that a page costs a page however much there was.
  CREATE TABLE duties (
    id TEXT NOT NULL,
    mailbox TEXT NOT NULL,
    sender TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    every INTEGER NOT NULL,
    state TEXT NOT NULL,
    due INTEGER,
    returns INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    extended INTEGER NOT NULL,
    note TEXT,
    ended_as TEXT,
    ended_at INTEGER,
    ended_by TEXT,
    PRIMARY KEY (id, mailbox)
  ) WITHOUT ROWID;
  -- With the column that it is made by: to count them, no row is read.
  CREATE INDEX duties_owed ON duties (mailbox, at, id, ended_as) WHERE ended_as IS NULL;
  CREATE INDEX duties_blocking ON duties (sender, at, id, mailbox) WHERE ended_as IS NULL;
  CREATE INDEX duties_due ON duties (due) WHERE ended_as IS NULL AND due IS NOT NULL;
  -- Mail from before there were duties makes none: its time is long over, and nobody should hear of all of it at once.
  INSERT INTO meta SELECT 'entered', max(seq) FROM messages WHERE true HAVING max(seq) IS NOT NULL;

  CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL,
    reserved INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX claims_holder ON claims (holder, until);

  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    token_hash TEXT NOT NULL,
    identities TEXT NOT NULL,
    roles TEXT NOT NULL,
    streams TEXT NOT NULL,
    threads TEXT NOT NULL,
    seen INTEGER NOT NULL
  ) WITHOUT ROWID;
  `,
  // `sent` is filled when a query needs it (see records.ts). As an index of `messages` it cost a relay one more page for every sender in
  // a group of sends.
  `
  DROP INDEX messages_sender;
  CREATE TABLE sent (sender TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (sender, seq)) WITHOUT ROWID;
  `,
  // Prompts for sessions, and their history (see sessions.ts). No line is ever removed. Its numbers are the ids of the control API.
  `
  CREATE TABLE session_lines (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    sender TEXT NOT NULL,
    ts INTEGER NOT NULL,
    text TEXT NOT NULL,
    reply_to INTEGER,
    status TEXT,
    fields TEXT,
    turn TEXT,
    unexported INTEGER NOT NULL DEFAULT 1
  );
  CREATE INDEX session_lines_session ON session_lines (session, id);
  CREATE INDEX session_lines_sender ON session_lines (session, sender, id);
  CREATE INDEX session_lines_reply ON session_lines (reply_to, id) WHERE reply_to IS NOT NULL;
  -- A turn has one question and one answer.
  CREATE UNIQUE INDEX session_lines_turn ON session_lines (session, turn, sender = 'claude') WHERE turn IS NOT NULL;
  CREATE INDEX session_lines_unexported ON session_lines (id) WHERE unexported = 1;

  CREATE TABLE session_prompts (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    key TEXT NOT NULL,
    raw INTEGER NOT NULL,
    state TEXT NOT NULL,
    at INTEGER NOT NULL,
    deadline INTEGER,
    place TEXT,
    turn TEXT,
    because TEXT,
    ended INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX session_prompts_open ON session_prompts (session, id) WHERE ended = 0;

  CREATE TABLE session_bindings (session TEXT PRIMARY KEY, conversation TEXT, place TEXT) WITHOUT ROWID;
  `,
  // The answers to some questions of a dialog that has several (see core/questions/answers.ts).
  `
  CREATE TABLE session_choices (session TEXT PRIMARY KEY, call TEXT NOT NULL, choices TEXT NOT NULL) WITHOUT ROWID;
  `,
];

/** The number of a state in the `copies` table; open ones come first. */
export const STATES = ['stored', 'held', 'settled', 'gone'] as const;
export const STORED = 0;
export const HELD = 1;
export const SETTLED = 2;
export const GONE = 3;
