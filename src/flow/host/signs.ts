import { Signal } from '../../protocol/signal.ts';

/**
 * What a reaction at a surface says. The door has read the sign, with a workspace's own signs; one that means nothing there is kept by
 * its number, not guessed. spec: host#glyphs
 */
export function signalFor({ signal, glyph = '' }: { signal?: string | undefined; glyph?: string | undefined }): Signal {
  const said = Signal.safeParse(signal ?? '');
  if (said.success) return said.data;
  const raw = glyph === '' ? (signal ?? '') : glyph;
  const points = Array.from(raw, (sign) => `u${sign.codePointAt(0)?.toString(16) ?? ''}`);
  return Signal.parse(`x-${points.join('-').slice(0, 30) || 'none'}`);
}
