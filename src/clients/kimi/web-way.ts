import { dirname } from 'node:path';
import type { MessageId } from '../../core/names.ts';
import type { LiveSession, RecordedProof } from '../../core/ports/live-session.ts';
import type { Attempt, Parcel, Way } from '../../core/ports/way-in.ts';
import type { Evidence } from '../../core/receipt.ts';
import { Wakeup, withLimit } from '../../core/wait.ts';
import { type MessageRecord, withGreeting } from '../../delivery/held-way.ts';
import { FolderWatch } from '../../sessions/follow.ts';
import { isRecord } from '../../wire/jsonrpc.ts';
import { NoServer } from '../loopback.ts';
import type { KimiIndex } from './record.ts';
import {
  hasOtherKimi,
  isLoaded,
  isOnServer,
  type KimiServer,
  kimiServers,
  otherKimis,
  WEB_CODES,
  WebRefusal,
  type WebSession,
  webState,
} from './web.ts';

/** The record is also read at this interval, in case a file event was lost. */
const LOOK_MS = 250;
/** If a session is idle for this long and its record has no proof, the way stops waiting for it. */
const SILENT_MS = 20_000;
/** Limit for a server that has answered before. A later answer counts in the next look. */
const LIST_MS = 1000;

/** A session that a server has loaded, and that no other Kimi has open. */
interface Found {
  server: KimiServer;
  session: WebSession;
}

/** The last answer of a server to `loaded`. */
interface Listed {
  sessions: readonly WebSession[];
  /** The answer came after the look that asked for it. */
  isLate: boolean;
  /** The request that the server has not answered yet. */
  asking: Promise<void> | null;
}

/**
 * The sessions that `kimi web` servers have loaded, for mail. A session is left out while another Kimi may have it open: see `otherKimis`.
 * A server that does not answer delays no other session: it is asked again in the background. Until it answers, its sessions have no way,
 * and `isOver` is null for their messages.
 */
export class KimiWebSessions {
  #found: readonly Found[] = [];
  readonly #listed = new Map<string, Listed>();
  /** The servers that did not answer in time, by `keyOf`. */
  readonly #silent = new Set<string>();

  constructor(readonly index: KimiIndex) {}

  async list(): Promise<LiveSession[]> {
    this.#found = await this.#look();
    return this.#found.map(({ server, session }) => {
      const start = server.start;
      const { status, waitingFor } = webState(session);
      return {
        client: 'kimi',
        id: session.id,
        folder: session.metadata.cwd,
        pid: server.pid,
        ...(start !== null && { start }),
        status,
        ...(waitingFor !== undefined && { waitingFor }),
      };
    });
  }

  /** Whether the last list has this session. */
  has(id: string): boolean {
    return this.#found.some(({ session }) => session.id === id);
  }

  /** The records of the sessions of the last list. */
  get records(): string[] {
    return this.#found.flatMap(({ session }) => this.index.find(session.id)?.path ?? []);
  }

  /** The way to a session of the last list. Null while the session waits for its user. */
  way({ id }: LiveSession, record: MessageRecord): Way | null {
    const found = this.#found.find(({ session }) => session.id === id);
    if (!found || this.#silent.has(keyOf(found.server)) || webState(found.session).status === 'waiting') return null;
    return new WebWay(found.server, id, this.index, record);
  }

  /** Whether it is certain that the server does not hold a message that the record lacks. Null: unknown. */
  async isOver({ id, pid }: LiveSession, message: MessageId): Promise<boolean | null> {
    const server = kimiServers(this.index.home).find((one) => one.pid === pid);
    if (!server || this.#silent.has(keyOf(server))) return null;
    try {
      return await isOver(server, id, message);
    } catch {
      this.#silent.add(keyOf(server));
      return null;
    }
  }

  async #look(): Promise<Found[]> {
    const { home } = this.index;
    const servers = kimiServers(home);
    const known = new Set(servers.map(keyOf));
    for (const key of this.#listed.keys()) if (!known.has(key)) this.#listed.delete(key);
    const lists = await Promise.all(servers.map((server) => this.#sessionsOf(server)));
    const all = servers.flatMap((server, at) => (lists[at] ?? []).map((session) => ({ server, session })));
    if (all.length === 0) return [];
    const count = (id: string): number => all.filter(({ session }) => session.id === id).length;
    const isTaken = otherKimis(home);
    return all.filter(({ session }) => count(session.id) === 1 && !isTaken(session.metadata.cwd));
  }

  async #sessionsOf(server: KimiServer): Promise<readonly WebSession[]> {
    const key = keyOf(server);
    const isFirst = !this.#listed.has(key);
    const listed: Listed = this.#listed.get(key) ?? { sessions: [], isLate: false, asking: null };
    this.#listed.set(key, listed);
    const answered = (sessions: readonly WebSession[]): void => {
      listed.sessions = sessions;
      listed.isLate = this.#silent.has(key);
      this.#silent.delete(key);
    };
    const failed = (error: unknown): void => {
      if (error instanceof NoServer) answered([]);
      else this.#silent.add(key);
    };
    if (listed.isLate) {
      listed.isLate = false;
      return listed.sessions;
    }
    listed.asking ??= server
      .loaded()
      .then(answered, failed)
      .finally(() => (listed.asking = null));
    if (isFirst) await listed.asking;
    else if (!this.#silent.has(key) && (await withLimit(listed.asking, LIST_MS)) === null) this.#silent.add(key);
    return listed.sessions;
  }
}

function keyOf({ pid, port }: KimiServer): string {
  return `${pid} ${port}`;
}

/** Whether it is certain that the server does not hold a message that the session's record lacks. Null: unknown. */
async function isOver(server: KimiServer, id: string, message: MessageId): Promise<boolean | null> {
  const session = await server.session(id);
  // A message that joined a turn is in the record only when the model gets it, so a busy session proves nothing.
  if (!session || !isLoaded(session) || webState(session).status !== 'idle') return null;
  return !(await promptsOf(server, id)).some((one) => isPromptOf(one, message));
}

/**
 * Sends mail to a session on `kimi web`, as a prompt by the API. An idle session begins a turn with it. In a busy session the mail joins the
 * turn after the running tool call. A server takes each prompt id once, so no mail is given twice while the server runs. Mail that is in the
 * record of the session is not given to a later server.
 */
export class WebWay implements Way {
  readonly name = 'rpc';

  constructor(
    readonly server: KimiServer,
    readonly session: string,
    readonly index: KimiIndex,
    readonly record: MessageRecord,
  ) {}

  async attempt(parcels: readonly Parcel[], signal: AbortSignal): Promise<Attempt> {
    if (parcels.length === 0) return left('there is nothing to hand over', false);
    const since = Date.now();
    let given = 0;
    for (const parcel of withGreeting(parcels, ({ id }) => !this.record.has(id))) {
      const said = await this.#hand(parcel, signal);
      if (said && given === 0) return said;
      if (said) return this.#offered(said.outcome === 'left' ? said.because : 'Kimi did not answer');
      given += 1;
    }
    return this.#proven(parcels, since, signal);
  }

  /** Sends one parcel, unless Kimi has it. Null: Kimi has it now. */
  async #hand(parcel: Parcel, signal: AbortSignal, again = 0): Promise<Attempt | null> {
    try {
      const session = await this.server.session(this.session);
      if (!session || !isLoaded(session)) return left('the server of Kimi does not have this session loaded', true);
      if (webState(session).status === 'waiting') return left('Kimi waits for an answer of its user', true);
      if (hasOtherKimi(this.index.home, session.metadata.cwd))
        return left('another Kimi runs in the folder and may have this session open', true);
      if (await isOnServer(this.index.home, this.session, this.server))
        return left('another `kimi web` has this session open', true);
      if (signal.aborted) return left('it was stopped before it went in', true);
    } catch (error) {
      return left(wordsOf(error), true);
    }
    const { id, text, ownTurn } = parcel;
    const prompt = promptId(id, again);
    try {
      const content = [{ type: 'text', text }];
      const place = `/sessions/${this.session}/prompts`;
      const said = await this.server.call('POST', place, { content, prompt_id: prompt });
      const status = isRecord(said) ? said['status'] : null;
      // A blocked prompt begins no turn, but it is in the conversation: the next request has it.
      if (status === 'blocked') return this.#offered('a hook of Kimi blocked the prompt');
      // The steer fails if the turn has ended by now. Then the prompt gets a turn of its own.
      if (status === 'queued' && !ownTurn)
        await this.server.call('POST', `${place}/${prompt}:steer`).catch(() => 'it waits for the end of the turn');
      return null;
    } catch (error) {
      if (error instanceof NoServer) return left(error.message, true);
      if (!(error instanceof WebRefusal) || error.isUnclear) return this.#offered(wordsOf(error));
      if (error.code !== WEB_CODES.promptInUse) return left(error.message, !error.isFinal);
    }
    // The server took this id before. If the prompt is in neither the queue nor the record, Kimi lost it with a turn that was cut off.
    const isLost = await isOver(this.server, this.session, id).catch(() => null);
    return isLost && !this.record.has(id) ? this.#hand(parcel, signal, again + 1) : null;
  }

  /** Waits until the record shows all parcels. Parcels that it does not show stay claimed: the record decides later. */
  async #proven(parcels: readonly Parcel[], since: number, signal: AbortSignal): Promise<Attempt> {
    const wakeup = new Wakeup();
    const folders = new FolderWatch(() => wakeup.notify());
    const wire = this.index.find(this.session)?.path;
    folders.set(wire === undefined ? [] : [dirname(wire)]);
    let idleFrom = performance.now();
    try {
      for (; ; await wakeup.nextWithin(LOOK_MS, signal)) {
        const proofs: RecordedProof[] = [];
        for (const { id } of parcels) proofs.push(await this.record.proof(id, since));
        const shown = proofs.flatMap((one) => (one.step === 'shown' ? [one.evidence] : []));
        if (shown.length === parcels.length)
          return { outcome: 'taken', step: 'shown', evidence: this.#evidence(shown.at(-1) ?? {}) };
        if (signal.aborted) return this.#offered('it was stopped before anything was proven');
        if (proofs.some((one) => one.step === 'accepted' && one.trouble !== undefined))
          return this.#offered('the model did not answer');
        const session = await this.server.session(this.session).catch(() => 'silent' as const);
        if (session === null || this.server.start === null) return this.#offered('the server of Kimi has ended');
        if (session === 'silent' || webState(session).status !== 'idle') idleFrom = performance.now();
        if (performance.now() - idleFrom > SILENT_MS)
          return this.#offered('Kimi is idle, and its record does not show that the model had the mail');
      }
    } finally {
      folders.close();
    }
  }

  #offered(because: string): Attempt {
    return { outcome: 'offered', evidence: this.#evidence({ because }) };
  }

  #evidence(more: Evidence): Evidence {
    return { way: this.name, client: 'kimi', session: this.session, server: this.server.pid, ...more };
  }
}

/** The ids of the running prompt and of the queued ones. */
async function promptsOf(server: KimiServer, session: string): Promise<string[]> {
  const data = await server.call('GET', `/sessions/${session}/prompts`);
  const { active, queued } = isRecord(data) ? data : {};
  const all: unknown[] = [active, ...(Array.isArray(queued) ? (queued as unknown[]) : [])];
  return all.flatMap((one) => (isRecord(one) && typeof one['prompt_id'] === 'string' ? [one['prompt_id']] : []));
}

function promptId(id: MessageId, again: number): string {
  return `parley_${id}${again === 0 ? '' : `_${again}`}`;
}

function isPromptOf(prompt: string, id: MessageId): boolean {
  return prompt === promptId(id, 0) || prompt.startsWith(`${promptId(id, 0)}_`);
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function left(because: string, retry: boolean): Attempt {
  return { outcome: 'left', because, retry };
}
