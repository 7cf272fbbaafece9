import { once } from './once.ts';

/**
 * One thing made of two: `ready` answers what it can, and the rest is loaded when the first asks for it. A short command pays for
 * all that it loads, and needs little of it. See ARCHITECTURE.md.
 * What cannot be loaded is told to whoever asks, at once and not by a promise; the next who asks tries again.
 */
export function standIn<Ready extends object, Rest extends object>(ready: Ready, rest: () => Rest): Ready & Rest {
  const loaded = once(rest);
  const known = ready as Record<PropertyKey, unknown>;
  const get = (_: unknown, name: string | symbol): unknown => {
    // Whoever awaits something asks first whether it is a promise: nothing should be loaded for that.
    if (Object.hasOwn(known, name) || typeof name === 'symbol' || name === 'then') return known[name];
    const from = name in known ? known : (loaded() as Record<PropertyKey, unknown>);
    const found = from[name];
    if (typeof found === 'function') return (known[name] = found.bind(from) as unknown);
    return found;
  };
  return new Proxy(known, { get }) as Ready & Rest;
}
