import { mkdirSync } from 'node:fs';
import type { Message } from '../../core/message.ts';
import type { AgentName } from '../../core/names.ts';
import { OfflineDirectory, RelayDirectory } from './remote-directory.ts';
import type { AgentRecord, Directory } from '../../core/ports/directory.ts';
import { explained } from '../../core/disk.ts';
import type { Journal } from '../../core/ports/journal.ts';
import { openSqliteJournal } from '../../store/journal/sqlite.ts';
import { MaildirFiles } from '../../store/maildir/files.ts';
import type { Judgement } from '../../store/maildir/send.ts';
import { RemoteMailboxes } from './remote-mailboxes.ts';
import type { Mailboxes } from '../../core/ports/mailboxes.ts';
import { KnownAbilities, readIdentity, writeIdentity } from './remote-identity.ts';
import { Aliases, Outbox } from './outbox.ts';
import { RelayHttp } from './remote-http.ts';
import type { Identity } from './remote-identity.ts';
import { InboxCache } from './inbox-cache.ts';
import { isNoSuchRoute, Post } from './post.ts';
import type { Remote } from '../../core/ports/remote.ts';

export interface RelayOptions {
  /** The agent's folder, with its local mailbox, journal and outbox. */
  root: string;
  identity: Identity;
  durability: 'normal' | 'full';
  /** `agent`: attention rules apply to each fetched message. `foreign`: every message is shown. */
  kind: 'agent' | 'foreign';
  /** Queue messages in an outbox while the relay is away? Otherwise a send fails at once. */
  queues: boolean;
  /** Decides the attention of a fetched message, by what this machine knows. */
  judge: (
    known: { journal: Journal; directory: Directory },
    mailbox: AgentName,
    message: Message,
  ) => Promise<Judgement>;
  tell: (text: string) => void;
}

export interface OpenRelay {
  journal: Journal;
  mailboxes: Mailboxes;
  directory: Directory;
  remote: Remote;
}

/** One agent at one relay, with a local mailbox as its cache. Opening it sends no request. */
export function openRelay(options: RelayOptions): OpenRelay {
  const { root, identity, tell } = options;
  const { agent } = identity;
  const self = selfRecord(agent, options.kind);
  const http = new RelayHttp({ ...identity, ...(options.queues && { ifRefused: refusedToken(identity) }) });
  const abilities = new KnownAbilities(http, Date.now, {
    read: () => identity.abilities,
    write(abilities) {
      identity.abilities = abilities;
      writeIdentity(root, { ...(readIdentity(root) ?? identity), abilities });
    },
  });
  try {
    mkdirSync(root, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw explained(error, root);
  }
  const journal = openSqliteJournal({ path: `${root}/ledger.db`, durability: options.durability });
  const known = { journal, directory: new OfflineDirectory(http, self) };
  const judge = (mailbox: AgentName, message: Message): Promise<Judgement> => options.judge(known, mailbox, message);
  const cache = new InboxCache({ root, files: new MaildirFiles(root), http, abilities });
  const outbox = options.queues ? new Outbox(root) : null;
  const aliases = new Aliases(root, Date.now);
  const post = new Post({ http, journal, abilities, outbox, aliases, now: Date.now });
  const mailboxes = new RemoteMailboxes(
    { root, journal, judge, now: Date.now },
    { agent, http, cache, post, tell, queues: options.queues },
  );
  const remote: Remote = {
    url: http.url,
    post: (from, draft) => post.post(from, draft),
    bring: (mailbox, wanted, patienceMs) => mailboxes.bring(mailbox, wanted, patienceMs),
    trace: (id) => traceAt(http, id),
    outbox: async () => outbox?.list() ?? [],
    sendOutbox: () => post.flush(),
    retry: (key) => post.retry(key),
    drop: (key) => post.drop(key),
    sentAs: async (prefix) => aliases.like(prefix),
    queuedAs: async (id) => aliases.oursFor(id),
  };
  return { journal, mailboxes, directory: new RelayDirectory(http, self), remote };
}

/** Our own record, as far as it is known without a request. */
function selfRecord(name: AgentName, kind: 'agent' | 'foreign'): AgentRecord {
  const known = { name, subscriptions: [], createdAt: '', lastSeen: '' };
  return kind === 'foreign' ? known : { ...known, parley: { v: 1, kind, roles: [] } };
}

function refusedToken({ agent, url, room }: Identity): string {
  const at = room === undefined ? '' : ` --room ${room}`;
  return (
    `the relay ${url} does not accept the token of @${agent}: it was revoked or replaced. Ask the operator of the relay for a new one ` +
    `(\`parley relay token issue ${agent}${at}\`), then: parley init ${agent} --url ${url}${at} --token-file <file>`
  );
}

async function traceAt(http: RelayHttp, id: string): Promise<unknown> {
  try {
    return (await http.ask('GET', `/v1/trace/${encodeURIComponent(id)}`)).data;
  } catch (error) {
    if (isNoSuchRoute(error)) return null;
    throw error;
  }
}
