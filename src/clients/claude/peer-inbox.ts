import { readdirSync, rmSync } from 'node:fs';
import { userOf } from '../../platform/peer-user.ts';
import { isProcessAlive } from '../../platform/process.ts';
import type { Listening } from '../../wire/connection.ts';
import { textOf } from '../../wire/lines.ts';
import { serveUnixSocket } from '../../wire/unix-socket.ts';

/** What a client reports about a message, unless it accepts the message at once. `delivered`: the user let in a message that was held. */
const STATUSES = ['held', 'denied', 'expired', 'refused', 'dropped', 'delivered'] as const;
export type PeerStatus = (typeof STATUSES)[number];

/** Claude Code accepts 30 messages of one sender at once, then one every two seconds, and drops the rest (seen in 2.1.325). We stay below. */
const BURST = 28;
const REFILL_MS = 2100;
/** The most bytes of one line. A model can write long answers to our address, and nobody reads them. */
const LINE_LIMIT = 1024 * 1024;
/** The most reports and written ids that are remembered. */
const KEPT = 10_000;

export interface PeerReport {
  status: PeerStatus;
  /** Why the message was dropped. */
  detail: string;
  /** The process key of the client that got the message, if known. */
  client?: string;
}

/**
 * Receives the clients' reports about our messages: one socket of ours in each folder where clients have their sockets. Clients report to no
 * other place, and only to the process that wrote to them.
 */
export class PeerInbox {
  readonly #open = new Map<string, Promise<Listening>>();
  readonly #reports = new Map<string, PeerReport>();
  /** For each message, the client that it was last written to. */
  readonly #written = new Map<string, string>();
  readonly #followers = new Set<() => void>();
  readonly #sent = new Map<string, { tokens: number; at: number }>();
  #isClosed = false;
  /** Unix ms. Reports about messages that were written before this time went to an earlier process. */
  readonly since = Date.now();

  /** The path of our socket in this folder. Opens it if necessary. */
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

  /** The last report about a message. With `client`, only a report of that client: another one may have ended. */
  reportOn(peerId: string, client?: string): Readonly<PeerReport> | undefined {
    const report = this.#reports.get(peerId);
    const isByClient = client === undefined || report?.client === undefined || report.client === client;
    return isByClient ? report : undefined;
  }

  /** Call before writing a message to a client: discards earlier reports, and assigns the next report to this client. */
  expectReport(peerId: string, client: string): void {
    this.#reports.delete(peerId);
    remember(this.#written, peerId, client);
  }

  /** Calls `changed` after each report. Returns a function that stops this. */
  follow(changed: () => void): () => void {
    this.#followers.add(changed);
    return () => void this.#followers.delete(changed);
  }

  /** Rate limit: returns 0 and uses up one message of the client's allowance, or returns after how many ms to ask again. */
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
    removeStaleSockets(folder);
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
      remember(this.#reports, id, { ...report, ...(client !== undefined && { client }) });
    }
    for (const changed of this.#followers) changed();
  }
}

/** Sets the value as the newest entry, and deletes the oldest one above `KEPT`. */
function remember<T>(map: Map<string, T>, id: string, value: T): void {
  map.delete(id);
  map.set(id, value);
  const [oldest] = map.keys();
  if (map.size > KEPT && oldest !== undefined) map.delete(oldest);
}

/** Removes the sockets of killed Parley processes. */
function removeStaleSockets(folder: string): void {
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
  /** Claude Code reports several drops in one line. */
  dropped_msg_ids?: string[];
}

function reportsIn(line: string): [string, PeerReport][] {
  let control: Control | null;
  try {
    control = JSON.parse(line) as Control | null;
  } catch {
    return [];
  }
  if (control?.action !== 'peer_message_status') return [];
  const word = control.status_detail === 'refused' ? 'refused' : control.status;
  const status = STATUSES.find((one) => one === word);
  if (!status) return [];
  const report = { status, detail: control.drop_reason ?? '' };
  const ids = [control.orig_msg_id, ...(Array.isArray(control.dropped_msg_ids) ? control.dropped_msg_ids : [])];
  return ids.flatMap((id) => (typeof id === 'string' ? [[id, report]] : []));
}
