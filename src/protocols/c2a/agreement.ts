import { PROTOCOL_VERSIONS } from './shapes.ts';
import type { Capabilities, Initialize, PeerRole, ProtocolVersion } from './shapes.ts';
import { SIGNALS, Signal } from '../../core/signal.ts';
import { RPC, RpcError } from '../../wire/jsonrpc.ts';

/** What both sides agreed on at `initialize`. */
export interface Agreement {
  version: ProtocolVersion;
  role: PeerRole;
  capabilities: Capabilities;
  emoji: SignalEmoji;
}

/**
 * A peer with an unknown version gets our preferred one. This host has every capability of the schema, so both sides have those that the
 * peer names. spec: host#initialize, host#capabilities
 */
export function agree({ capabilities, role, protocolVersion }: Initialize): Agreement {
  const emoji = new SignalEmoji(capabilities.glyphs);
  return {
    version: PROTOCOL_VERSIONS.find((one) => one === protocolVersion) ?? PROTOCOL_VERSIONS[0],
    role,
    emoji,
    capabilities: { ...capabilities, ...(capabilities.glyphs && { glyphs: emoji.all }) },
  };
}

const EMOJI = /^[^\p{Cc}\s]{1,32}$/u;

/** The emoji that a workspace shows for each signal. Agents see only signals. spec: host#glyphs */
class SignalEmoji {
  readonly #emoji: Map<string, string>;
  readonly #signals = new Map<string, string>();

  /** `own` are the workspace's own emoji, by signal. Each emoji stands for one signal only. */
  constructor(own: Record<string, string> = {}) {
    const usual = Object.entries(SIGNALS).map(([signal, { glyph }]) => [signal, glyph] as const);
    this.#emoji = new Map([...usual, ...Object.entries(own)]);
    for (const [signal, emoji] of this.#emoji) {
      if (!Signal.safeParse(signal).success) throw badEmoji(signal, 'is not a signal');
      if (!EMOJI.test(emoji)) throw badEmoji(signal, 'must have 1 to 32 characters, without spaces');
      const other = this.#signals.get(plain(emoji));
      if (other !== undefined)
        throw badEmoji(Object.hasOwn(own, signal) ? signal : other, 'is also the emoji of another signal');
      this.#signals.set(plain(emoji), signal);
    }
  }

  /** Every signal with its emoji. */
  get all(): Record<string, string> {
    return Object.fromEntries(this.#emoji);
  }

  /** Undefined where a workspace has no emoji for it. */
  emojiOf(signal: string): string | undefined {
    return this.#emoji.get(signal);
  }

  /** Undefined for an emoji without a signal: the meaning is never guessed. */
  signalOf(emoji: string): string | undefined {
    return this.#signals.get(plain(emoji));
  }
}

/** The same emoji in another skin colour, or with a variation selector, is the same. */
function plain(emoji: string): string {
  return emoji.replaceAll('\ufe0f', '').replace(/[\u{1f3fb}-\u{1f3ff}]/gu, '');
}

function badEmoji(signal: string, why: string): RpcError {
  const field = `capabilities.glyphs.${signal.slice(0, 40)}`;
  return new RpcError(RPC.params, `${field} ${why}`, { field });
}
