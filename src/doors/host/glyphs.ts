import { SIGNALS, Signal } from '../../protocol/signal.ts';
import { RPC, RpcError } from './frames.ts';

/** More is no sign any more. */
const GLYPH = /^[^\p{Cc}\s]{1,32}$/u;

/** What a workspace shows for each signal. Agents see the signals only. spec: host#glyphs */
export class Glyphs {
  readonly #glyphs: Map<string, string>;
  readonly #signals: Map<string, string>;

  /** `own` are the workspace's own signs, by signal. Two signals with one sign could not be told apart. */
  constructor(own: Record<string, string> = {}) {
    const all = Object.entries(SIGNALS).map(([signal, { glyph }]) => [signal, glyph] as const);
    this.#glyphs = new Map([...all, ...Object.entries(own)]);
    this.#signals = new Map();
    for (const [signal, glyph] of this.#glyphs) {
      if (!Signal.safeParse(signal).success) throw badGlyph(signal, 'is no signal');
      if (!GLYPH.test(glyph)) throw badGlyph(signal, 'is no sign of 1 to 32 characters');
      const other = this.#signals.get(plain(glyph));
      if (other !== undefined)
        throw badGlyph(Object.hasOwn(own, signal) ? signal : other, `is also the sign of another`);
      this.#signals.set(plain(glyph), signal);
    }
  }

  /** Every signal with its sign. */
  get all(): Record<string, string> {
    return Object.fromEntries(this.#glyphs);
  }

  /** What to show for a signal; undefined where a workspace has no sign for it. */
  glyphOf(signal: string): string | undefined {
    return this.#glyphs.get(signal);
  }

  /** What a sign means; undefined for one that means nothing here. It is never guessed. */
  signalOf(glyph: string): string | undefined {
    return this.#signals.get(plain(glyph));
  }
}

/** The same sign in another colour of skin, or asked for as a picture, is the same sign. */
function plain(glyph: string): string {
  return glyph.replaceAll('\ufe0f', '').replace(/[\u{1f3fb}-\u{1f3ff}]/gu, '');
}

function badGlyph(signal: string, why: string): RpcError {
  const field = `capabilities.glyphs.${signal.slice(0, 40)}`;
  return new RpcError(RPC.params, `${field} ${why}`, { field });
}
