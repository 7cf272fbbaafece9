import { Peer } from './peer.ts';
import type { PeerDeps, Pipe } from './peer.ts';

/** More connections are not taken at once: each may keep some megabytes for a slow reader. */
const MOST_PEERS = 500;

/** How long requests in hand may take when we leave. */
const PATIENCE_MS = 5000;

/** Everybody who is connected, over whatever. */
export class Hall {
  readonly #peers = new Set<Peer>();
  #isClosed = false;

  constructor(readonly deps: PeerDeps) {}

  /** Null if there is no room, or if we are leaving. */
  enter(pipe: Pipe): Peer | null {
    if (this.#isClosed || this.#peers.size >= MOST_PEERS) return null;
    const peer = new Peer(this.deps, pipe);
    this.#peers.add(peer);
    return peer;
  }

  /** Returns when what the peer had asked for is done. */
  async leave(peer: Peer): Promise<void> {
    await peer.ended();
    this.#peers.delete(peer);
  }

  /** Takes nobody in, and parts from everybody: their requests in hand are finished first. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { promise: patience, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, PATIENCE_MS);
    await Promise.all([...this.#peers].map((peer) => peer.part('the host is stopping', patience)));
    clearTimeout(timer);
    this.#peers.clear();
  }
}
