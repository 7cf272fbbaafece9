import * as z from 'zod/mini';

/** The proof ladder. A copy climbs it only on evidence, and the evidence is kept. spec: delivery#ladder */
export const Step = z.enum(['stored', 'offered', 'accepted', 'shown', 'settled']);
export type Step = z.infer<typeof Step>;

/** How a copy can end, or be owed. `claimed` and `deferred` are open: still owed. spec: c2a#dispositions */
export const Disposition = z.enum([
  'responded',
  'acknowledged',
  'deferred',
  'claimed',
  'ignored',
  'superseded',
  'failed',
]);
export type Disposition = z.infer<typeof Disposition>;

/** What was seen, in small words: which way, which attempt, which file or reply. Never a body. */
export const Evidence = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
export type Evidence = z.infer<typeof Evidence>;

/** One thing that happened to one copy. spec: delivery#receipts */
export const Receipt = z.object({
  step: z.union([Step, z.enum(['released', 'redelivered', 'taken_elsewhere', 'withdrawn', 'knocked'])]),
  at: z.iso.datetime(),
  evidence: Evidence,
});
export type Receipt = z.infer<typeof Receipt>;
