import * as v from 'valibot';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';

/** The steps of proof, in order. A copy reaches a step only with evidence, which is kept. spec: delivery#ladder */
export const Step = new Schema(() => v.picklist(['stored', 'offered', 'accepted', 'shown', 'settled']));
export type Step = Described<typeof Step>;

/** How a copy ends. `claimed` and `deferred` are not ends: the answer is still owed. spec: c2a#dispositions */
export const Disposition = new Schema(() =>
  v.picklist(['responded', 'acknowledged', 'deferred', 'claimed', 'ignored', 'superseded', 'failed']),
);
export type Disposition = Described<typeof Disposition>;

/** The evidence for a step in short fields: which way, which attempt, which file or reply. Never a body. */
export const Evidence = new Schema(() => v.record(v.string(), v.union([v.string(), v.number(), v.boolean()])));
export type Evidence = Described<typeof Evidence>;

/** What can happen to a copy besides the steps of proof. */
const OTHER_STEPS = [
  'released',
  'taken_elsewhere',
  'set_aside',
  'knocked',
  'answered',
  'reacted',
  'claimed',
  'deferred',
  'discharged',
  'escalated',
  'cancelled',
  'refused',
  'reconsidered',
] as const;

/** One thing that happened to one copy. spec: delivery#receipts */
export const Receipt = new Schema(() =>
  v.object({
    step: v.union([Step.inner, v.picklist(OTHER_STEPS)]),
    at: v.pipe(v.string(), v.isoTimestamp()),
    evidence: Evidence.inner,
  }),
);
export type Receipt = Described<typeof Receipt>;

/** Makes a receipt for a step at this time (ms). */
export function receipt(step: Receipt['step'], at: number, evidence: Evidence): Receipt {
  return { step, at: new Date(at).toISOString(), evidence };
}
