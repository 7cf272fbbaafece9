import { readdirSync, rmSync } from 'node:fs';
import { userOf } from '../../platform/peer-user.ts';
import { isProcessAlive } from '../../platform/process.ts';
import type { Listening } from '../../wire/connection.ts';
import { textOf } from '../../wire/lines.ts';
import { serveUnixSocket } from '../../wire/unix-socket.ts';

/** What a client can say of a message that it did not simply take. `delivered`: its user let it in after it was held. */
const STATUSES = ['held', 'denied', 'expired', 'refused', 'dropped', 'delivered'] as const;
export type PeerStatus = (typeof STATUSES)[number];

/** The client lets so many messages of one sender in at once, and then one each two seconds. What is more it drops. Seen in 2.1.325: 30. */
const BURST = 28;
const REFILL_MS = 2100;
/** Bytes of one line. A model that answers to our address can write much; nobody reads it. */
const LINE_LIMIT = 1024 * 1024;
/** So many ids are remembered. */
const KEPT = 10_000;

export interface PeerReport {
  status: PeerStatus;
  /** Why it was dropped. */
  detail: string;
  /** The client that it was written to, where that is known. */
  client?: string;
}

/**
 * Where clients tell us what became of a message: one socket of ours in each folder in which clients have theirs. They answer nowhere else,
 * and only to the process that wrote to them.
 */
export class PeerInbox {
  readonly #open = new Map<string, Promise<Listening>>();
  readonly #reports = new Map<string, PeerReport>();
  /** Which client each message was written to last. */
  readonly #written = new Map<string, string>();
  readonly #followers = new Set<() => void>();
  readonly #sent = new Map<string, { tokens: number; at: number }>();
  #isClosed = false;
  /** Reports on what was written before this time (Unix ms) went to another process. */
  readonly since = Date.now();

  /** The path of our socket in the folder of a client's socket. */
  async pathIn(folder: string): Promise<string> {
    if (this.#isClosed) throw new Error('the inbox is closed');
    const opening = this.#open.get(folder) ?? this.#listen(folder);
    this.#open.set(folder, opening);
    try {
      return (await opening).address;
    } catch (error) {
      this.#open.delete(folder);
      throw error;
    }
  }

  /** What a client said last of a message, by the id that it was given. What another one said does not count: it may have ended. */
  reportOn(peerId: string, client?: string): Readonly<PeerReport> | undefined {
    const report = this.#reports.get(peerId);
    const isOfIt = client === undefined || report?.client === undefined || report.client === client;
    return isOfIt ? report : undefined;
  }

  /** A message goes to a client now: the next report on it is that client's, and an earlier one does not count any more. */
  writes(peerId: string, client: string): void {
    this.#reports.delete(peerId);
    keep(this.#written, peerId, client);
  }

  /** Calls back after each report. Returns how to stop. */
  follow(changed: () => void): () => void {
    this.#followers.add(changed);
    return () => void this.#followers.delete(changed);
  }

  /** Takes the right to write one more message to a client: 0; else says after how many ms to ask again. */
  mayWrite(client: string, now = Date.now()): number {
    const { tokens, at } = this.#sent.get(client) ?? { tokens: BURST, at: now };
    const filled = Math.min(BURST, tokens + (now - at) / REFILL_MS);
    if (filled < 1) return Math.ceil((1 - filled) * REFILL_MS);
    this.#sent.set(client, { tokens: filled - 1, at: now });
    return 0;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const opening of this.#open.values()) {
      const listening = await opening.catch(() => null);
      listening?.close();
      if (listening) rmSync(listening.address, { force: true });
    }
    this.#open.clear();
  }

  async #listen(folder: string): Promise<Listening> {
    removeDead(folder);
    const path = `${folder}/parley-${process.pid}-${crypto.randomUUID().slice(0, 8)}.sock`;
    const receiver = {
      receive: (line: string | Uint8Array) => this.#receive(typeof line === 'string' ? line : textOf(line)),
      tooLong() {},
      async idle() {},
      async ended() {},
    };
    const user = process.getuid?.() ?? -1;
    const rest = { otherwise: 'start the client again', user, userOf, lineLimit: LINE_LIMIT, log() {} };
    return serveUnixSocket(() => receiver, { path, name: 'claude', ...rest });
  }

  #receive(line: string | null): void {
    for (const [id, report] of reportsIn(line ?? '')) {
      const client = this.#written.get(id);
      keep(this.#reports, id, { ...report, ...(client !== undefined && { client }) });
    }
    for (const changed of this.#followers) changed();
  }
}

/** As the newest; the oldest is forgotten. */
function keep<T>(map: Map<string, T>, id: string, value: T): void {
  map.delete(id);
  map.set(id, value);
  const [oldest] = map.keys();
  if (map.size > KEPT && oldest !== undefined) map.delete(oldest);
}

/** Removes what a process of ours left that was killed. */
function removeDead(folder: string): void {
  for (const name of readdirSync(folder)) {
    const [, pid] = /^parley-(\d+)-[0-9a-f]{8}\.sock$/.exec(name) ?? [];
    if (pid !== undefined && !isProcessAlive(Number(pid))) rmSync(`${folder}/${name}`, { force: true });
  }
}

interface Control {
  action?: string;
  status?: string;
  status_detail?: string;
  drop_reason?: string;
  orig_msg_id?: string;
  /** Drops are told together. */
  dropped_msg_ids?: string[];
}

function reportsIn(line: string): [string, PeerReport][] {
  let told: Control | null;
  try {
    told = JSON.parse(line) as Control | null;
  } catch {
    return [];
  }
  if (told?.action !== 'peer_message_status') return [];
  const word = told.status_detail === 'refused' ? 'refused' : told.status;
  const status = STATUSES.find((one) => one === word);
  if (!status) return [];
  const report = { status, detail: told.drop_reason ?? '' };
  const ids = [told.orig_msg_id, ...(Array.isArray(told.dropped_msg_ids) ? told.dropped_msg_ids : [])];
  return ids.flatMap((id) => (typeof id === 'string' ? [[id, report]] : []));
}
