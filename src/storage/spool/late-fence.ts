import type { Ledger } from '../ledger/ledger.ts';
import type { InTray } from './in-tray.ts';

/** What says nothing of what lies in the tray, or is part of entering it. What is in readers' hands is asked every few seconds, and was entered before. */
const OPEN: ReadonlySet<PropertyKey> = new Set<keyof Ledger>([
  'acceptTogether',
  'flush',
  'tray',
  'leaveLog',
  'close',
  'underKey',
  'unfiledCount',
  'drafted',
  'filed',
  'abandoned',
  'troubles',
]);

type Method = (...asked: unknown[]) => unknown;

/** The ledger for everybody but the tray itself: who asks for anything asks after everything that was answered has been entered. */
export function behindTray(ledger: Ledger, tray: InTray): Ledger {
  const made = new Map<PropertyKey, Method>();
  const get = (_: unknown, name: string | symbol): unknown => {
    const known = made.get(name);
    if (known) return known;
    const found = ledger[name as keyof Ledger] as unknown;
    if (typeof found !== 'function') return found;
    if (OPEN.has(name)) return (found as Method).bind(ledger);
    const act = found as Method;
    const fenced: Method = (...asked) => {
      tray.noteReader();
      return tray.isCaughtUp ? act.apply(ledger, asked) : tray.catchUp().then(() => act.apply(ledger, asked));
    };
    made.set(name, fenced);
    return fenced;
  };
  return new Proxy(ledger, { get }) as Ledger;
}
