import type { Bind } from '../../protocol/host.ts';
import type { AgentName } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { SessionRecord } from '../../storage/ledger/duties.ts';
import { disown, giveRole, own, takeRole } from '../appoint.ts';
import type { Who } from '../workspace.ts';
import type { HostDeps } from './deps.ts';

/** A session as it is bound: what is written down of it, whose mail it gets, and what its harness should know. */
export interface Bound {
  record: SessionRecord;
  whos: Who[];
  token: string;
  warnings: string[];
  /** What was written down of it before. */
  before: SessionRecord | null;
}

/** Makes a session, or takes up an earlier one: only with the token that it was bound with. spec: host#bind */
export async function bindSession(deps: HostDeps, request: Bind): Promise<Bound> {
  const { ledger } = deps.home;
  const earlier = await ledger.session(request.sessionId);
  if (earlier && (request.token === undefined || deps.hash(request.token) !== earlier.tokenHash)) {
    throw new Refusal(
      'not_yours',
      `session ${request.sessionId} is bound; give its token to take it up, or use another id`,
    );
  }
  // A harness may bring the token of a new session: then an answer that is lost costs it nothing.
  const token = request.token ?? deps.newToken();
  const record: SessionRecord = {
    id: request.sessionId,
    tokenHash: deps.hash(token),
    identities: request.identities,
    roles: request.roles,
    streams: request.streams,
    threads: request.threads,
    seen: deps.now(),
  };
  const warnings: string[] = [];
  const whos = await known(deps, request.identities, warnings);
  await ledger.saveSession(record);
  const former = earlier && (await holderOf(deps, earlier));
  const isMoved = former?.name !== whos[0]?.name;
  if (earlier && isMoved) await appoint(former, namingNothing(earlier), earlier, warnings);
  await appoint(whos[0], record, isMoved ? null : earlier, warnings);
  return { record, whos, token, warnings, before: earlier };
}

/** Forgets a session that stayed away: what it named is nobody's again. */
export async function dropSession(deps: HostDeps, record: SessionRecord): Promise<void> {
  await appoint(await holderOf(deps, record), namingNothing(record), record, []);
  await deps.home.ledger.dropSession(record.id);
  deps.log('host.session_dropped', { session: record.id });
}

/** Whose roles, channels and threads a session named: the first of its mailboxes that is there. */
async function holderOf({ home }: HostDeps, { identities }: SessionRecord): Promise<Who | null> {
  for (const name of identities) if (await home.directory.get(name)) return { name, home };
  return null;
}

function namingNothing(record: SessionRecord): SessionRecord {
  return { ...record, roles: [], streams: [], threads: [] };
}

/** The mailboxes that are there. Without one nothing can be meant for this session. No model says yes for a person. */
async function known(deps: HostDeps, identities: readonly AgentName[], warnings: string[]): Promise<Who[]> {
  const whos: Who[] = [];
  for (const name of new Set(identities)) {
    const record = await deps.home.directory.get(name);
    if (record?.parley?.kind === 'human') {
      throw new Refusal(
        'not_yours',
        `@${name} is a person, and sessions are for agents; bind one to an agent's mailbox`,
      );
    }
    if (!record) warnings.push(`no agent is called ${name}; make it with \`parley init ${name}\`, then bind again`);
    else whos.push({ name, home: deps.home });
    if (record) await deps.home.directory.seen(name);
  }
  if (whos.length === 0) {
    warnings.push('this session is bound to no mailbox: nothing can be meant for it, and nothing will be delivered');
  }
  return whos;
}

/** Roles, channels and threads belong to the first identity. What the session no longer names is given up. */
async function appoint(
  who: Who | null | undefined,
  now: SessionRecord,
  before: SessionRecord | null,
  warnings: string[],
): Promise<void> {
  if (!who) return;
  const attempt = async (act: () => Promise<unknown>): Promise<void> => {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      warnings.push(error.message);
    }
  };
  for (const role of now.roles) await attempt(() => giveRole(who, role));
  for (const what of [...now.streams, ...now.threads]) await attempt(() => own(who, what));
  const kept = new Set<string>([...now.roles, ...now.streams, ...now.threads]);
  for (const role of before?.roles ?? []) if (!kept.has(role)) await attempt(() => takeRole(who, role));
  for (const what of [...(before?.streams ?? []), ...(before?.threads ?? [])]) {
    if (!kept.has(what)) await attempt(() => disown(who, what));
  }
}
