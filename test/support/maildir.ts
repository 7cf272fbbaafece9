import { mkdirSync, writeFileSync } from 'node:fs';
import type { Attention } from '../../src/core/attention/attention.ts';
import type { Message } from '../../src/core/message.ts';
import type { AgentName } from '../../src/core/names.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import type { SqliteJournal } from '../../src/store/journal/sqlite.ts';
import { Maildir } from '../../src/store/maildir/maildir.ts';
import { LOUD } from './mail.ts';

export interface OpenHome {
  mailboxes: Maildir;
  journal: SqliteJournal;
  close: () => Promise<void>;
}

export interface HomeOptions {
  now?: () => number;
  judge?: (mailbox: AgentName, message: Message) => Promise<Attention>;
  onStep?: (step: string) => void;
  /** Every command heals first; a test may want to see what happens if one does not. */
  heal?: boolean;
}

/** Opens a home's ledger and spool the way every process does. */
export async function openHome(root: string, options: HomeOptions = {}): Promise<OpenHome> {
  const { now = Date.now, judge = async () => LOUD, onStep, heal = true } = options;
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: 'normal', now });
  const judgement = async (mailbox: AgentName, message: Message) => ({
    attention: await judge(mailbox, message),
    lineage: message.parley?.lineage,
  });
  const mailboxes = new Maildir({ root, journal, judge: judgement, now, ...(onStep && { onStep }) });
  if (heal) await mailboxes.heal();
  return { mailboxes, journal, close: () => journal.close() };
}

/** Leaves a message in a mailbox the way another program does. */
export function leaveMessage(root: string, mailbox: AgentName, message: Message): void {
  leaveFile(root, mailbox, `${message.id}.json`, JSON.stringify(message));
}

/** Writes a file straight into a mailbox, as a plain script would: no draft, no rename, no ledger. */
export function leaveFile(root: string, mailbox: AgentName, name: string, text: string): string {
  const folder = `${root}/spool/${mailbox}/new`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/${name}`, text);
  return `${folder}/${name}`;
}
