import type { Who } from '../../core/mail/workspace.ts';
import type { AgentName } from '../../core/names.ts';
import { hashOf, sameHash } from '../../wire/tokens.ts';
import type { AgentRecord } from '../../core/ports/directory.ts';
import { Bucket } from '../../wire/rate-limit.ts';
import type { Room } from './room-registry.ts';
import { badRequest } from './relay-phrases.ts';

/** Tokens whose hash is kept in mind: hashing costs more than everything else on the way in. */
const MOST_TOKENS = 16_384;
/** No token of ours is longer; a room's token is its owner's choice. */
const LONGEST_TOKEN = 1024;
/** How nearly all of them come. */
const USUAL = /^Bearer [\w-]{1,1024}$/;

/** A token that was shown, and how much its owner may still ask for. */
interface CachedToken {
  hash: string;
  bucket: Bucket | null;
  /** Whose record was found to carry this hash: as long as the directory names the same, nothing need be compared. */
  owner: AgentName | null;
}

/** The token of a request: after `Bearer`, in any case, or bare. Two of them would mean two callers. spec: relay#tokens */
export function tokenOf(request: Request): string | null {
  const header = request.headers.get('authorization');
  if (header === null) return null;
  if (USUAL.test(header)) return header.slice('Bearer '.length);
  if (/,\s*Bearer\s/i.test(header)) throw badRequest('send one Authorization header, with one token');
  const token = header.replace(/^Bearer\s+/i, '').trim();
  return token === '' || token.length > LONGEST_TOKEN ? null : token;
}

/** Who a token belongs to. Nothing else in a request says who is speaking. */
export class TokenCache {
  readonly #known = new Map<string, CachedToken>();

  constructor(
    readonly rate: { perMinute: number } | null,
    readonly now: () => number,
  ) {}

  /** Whose token this is in that room, and after how many seconds to ask again (0: now); null if it is nobody's. */
  async whose(room: Room, token: string): Promise<{ who: Who; hash: string; waitS: number } | null> {
    const known = this.#known.get(token);
    const cached = known ?? this.#cache(token);
    const { directory } = room.home;
    const name = await directory.byToken(cached.hash);
    if (name === null || (name !== cached.owner && !isOwner(await directory.get(name), cached))) return null;
    cached.owner = name;
    // Only good tokens are kept in mind: strangers cannot push them out.
    if (!known) this.#remember(token, cached);
    return { who: { name, home: room.home }, hash: cached.hash, waitS: cached.bucket?.take(this.now()) ?? 0 };
  }

  #cache(token: string): CachedToken {
    return { hash: hashOf(token), bucket: this.rate && new Bucket(this.rate.perMinute, this.now()), owner: null };
  }

  #remember(token: string, cached: CachedToken): void {
    this.#known.set(token, cached);
    if (this.#known.size <= MOST_TOKENS) return;
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

function isOwner(record: AgentRecord | null, { hash }: CachedToken): boolean {
  return record?.tokenHash !== undefined && sameHash(record.tokenHash, hash);
}
