import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Attention } from '../../src/core/attention/attention.ts';
import type { Message } from '../../src/core/message.ts';
import type { AgentName } from '../../src/core/names.ts';
import { entryText } from '../../src/protocols/c2c/entry.ts';
import { withLock } from '../../src/protocols/c2c/lock.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import type { SqliteJournal } from '../../src/store/journal/sqlite.ts';
import { C2cMailboxes } from '../../src/protocols/c2c/mailbox.ts';
import { bob, carol, LOUD } from './mail.ts';

export interface OpenBroker {
  mailboxes: C2cMailboxes;
  journal: SqliteJournal;
  close: () => Promise<void>;
}

export interface BrokerOptions {
  now?: () => number;
  judge?: (mailbox: AgentName, message: Message) => Promise<Attention>;
  onStep?: (step: string) => void;
  heal?: boolean;
  sessions?: ReadonlyMap<AgentName, string>;
}

/** Whose inbox is which: bob's session has another name than he; carol is in no registry. */
export const SESSIONS: ReadonlyMap<AgentName, string> = new Map([[bob, 'session-of-bob']]);

/** Opens the ledger and the spool of a broker directory the way every process does. */
export async function openBrokerHome(root: string, options: BrokerOptions = {}): Promise<OpenBroker> {
  const { now = Date.now, judge = async () => LOUD, onStep, heal = true, sessions = SESSIONS } = options;
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal', now });
  const mailboxes = new C2cMailboxes({
    root,
    journal,
    now,
    names: { fileOf: (mailbox) => sessions.get(mailbox) ?? mailbox, mailboxes: () => [...sessions.keys(), carol] },
    judge: async (mailbox, message) => ({
      attention: await judge(mailbox, message),
      lineage: message.parley?.lineage,
    }),
    ...(onStep && { onStep }),
  });
  if (heal) await mailboxes.heal();
  return { mailboxes, journal, close: () => journal.close() };
}

export function inboxOf(root: string, mailbox: AgentName): string {
  return `${root}/${SESSIONS.get(mailbox) ?? mailbox}.inbox.json`;
}

/** Adds an entry the way another program does that knows the rules: lock, read, write beside, rename. */
export function leaveEntry(root: string, mailbox: AgentName, entry: object): void {
  const path = inboxOf(root, mailbox);
  withLock(path.replace(/json$/, 'lock'), () => {
    const entries = listAt(path);
    writeFileSync(`${path}.other`, JSON.stringify([...entries, entry]));
    renameSync(`${path}.other`, path);
  });
}

export function leaveMessage(root: string, mailbox: AgentName, message: Message): void {
  leaveEntry(root, mailbox, JSON.parse(entryText(message, mailbox)) as object);
}

/** Takes everything out of an inbox the way another program does. */
export function drainAway(root: string, mailbox: AgentName): Record<string, unknown>[] {
  const path = inboxOf(root, mailbox);
  return withLock(path.replace(/json$/, 'lock'), () => {
    const entries = listAt(path);
    writeFileSync(`${path}.other`, '[]');
    renameSync(`${path}.other`, path);
    return entries;
  });
}

export function listAt(path: string): Record<string, unknown>[] {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>[];
  } catch {
    return [];
  }
}
