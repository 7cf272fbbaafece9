import * as v from 'valibot';
import { lineForModel } from '../../delivery/gate.ts';
import { findMessage } from '../../flow/desk.ts';
import type { Home } from '../../flow/desk.ts';
import { dutyFor } from '../../flow/duty.ts';
import { isOffer } from '../../flow/owe.ts';
import type { Duty } from '../../protocol/duty.ts';
import { Evidence } from '../../protocol/receipt.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { Schema } from '../../protocol/schema.ts';
import type { Trace } from '../../storage/ledger/ledger.ts';
import { command } from '../command.ts';
import type { Context } from '../context.ts';
import { clockTime, headline } from '../words.ts';

export default command({
  usage: 'trace <id>',
  about:
    'What became of a message: every step of every copy that is proven, and by what. What is not proven is not said.',
  options: {},
  words: [1, 1],
  examples: ['parley trace 1f2e3d4c', 'parley trace 1f2e3d4c --json'],
  async run(context, _values, [prefix = '']) {
    const { home: found, id } = await findMessage(context.desk, prefix);
    await found.spool.heal();
    for (const { mailbox } of (await found.ledger.trace(id))?.copies ?? []) await found.spool.adopt(mailbox);
    const trace = await found.ledger.trace(id);
    const there = await found.far?.trace(id);
    const queuedAs = await found.far?.queuedAs(id);
    if (!trace) throw new Refusal('not_found', `no message has the id ${id}`);
    const duties = await dutiesOf(found, trace);
    if (context.json)
      return context.sayJson({
        home: found.label,
        ...trace,
        copies: trace.copies.map((copy) => ({
          ...copy,
          steps: steps(trace, copy),
          duty: duties.get(copy.mailbox) ?? null,
        })),
        ...(found.far && { relay: there, queuedAs }),
      });
    context.say(told(context, trace, found.label, duties));
    if (queuedAs) context.say(`  queued here as ${queuedAs}; the relay gave it the id ${id}`);
    if (found.far) context.say(`\n  at ${found.far.url}\n${toldThere(context, there)}`);
  },
});

type Copy = Trace['copies'][number];

/** What each recipient owes or owed for it. What nobody has asked for yet is worked out and not written down: looking changes nothing. */
async function dutiesOf(home: Home, { message, copies }: Trace): Promise<Map<string, Duty>> {
  const duties = await Promise.all(
    copies.map(async (copy) => {
      const known = await home.ledger.duty(copy.mailbox, message.id);
      if (known || copy.attention.policy !== 'must_respond') return known;
      return dutyFor(home, copy, message);
    }),
  );
  return new Map(duties.flatMap((duty) => (duty ? [[duty.mailbox, duty]] : [])));
}

/** The proven steps of one copy, in order. */
function steps(trace: Trace, copy: Copy): { step: string; at: string; evidence: string }[] {
  // Of a copy that another program stored we know only that it was found: a receipt says so.
  const ours = copy.receipts.every(({ step }) => step !== 'stored');
  const stored = { step: 'stored', at: trace.message.ts, evidence: 'flushed to disk' };
  const seen = copy.receipts.map(({ step, at, evidence }) => ({ step, at, evidence: facts(evidence) }));
  const end =
    copy.state === 'settled'
      ? [
          {
            step: 'settled',
            at: copy.settledAt ?? '',
            evidence: `${copy.disposition ?? 'unknown'}${copy.settledBy ? `, ${facts(copy.settledBy)}` : ''}`,
          },
        ]
      : [];
  // A copy can have ended before it was answered. Of two at the same time the first written comes first.
  const later = [...seen, ...end].sort((a, b) => Number(a.at > b.at) - Number(a.at < b.at));
  return [...(ours ? [stored] : []), ...later];
}

function told(context: Context, trace: Trace, label: string, duties: Map<string, Duty>): string {
  const { paint } = context;
  const lines = [headline({ message: trace.message }, context.desk.now(), paint), `  in home ${label}`];
  for (const copy of trace.copies) {
    const { directedness, policy, injection, reason } = copy.attention;
    lines.push('', `  ${paint.bold(`@${copy.mailbox}`)}  ${directedness} · ${policy} · ${injection} (${reason})`);
    for (const { step, at, evidence } of steps(trace, copy)) {
      lines.push(`    ${paint.green(step.padEnd(16))} ${at}  ${evidence}`);
    }
    lines.push(`    ${paint.dim(now(copy))}`);
    const duty = duties.get(copy.mailbox);
    if (duty) lines.push(`    ${isOffer(duty, copy) ? offered(duty) : owed(duty)}`);
  }
  return lines.join('\n');
}

function offered({ due }: Duty): string {
  return `may take it${due === null ? '' : ` until ${clockTime(due)}, then the next is asked`}; owes nothing before that`;
}

/** Where the duty stands, in words: a copy can have ended while its answer is still owed. */
function owed({ kind, state, due, returns, tier, note, ended }: Duty): string {
  const what = kind === 'obligation' ? 'an obligation' : 'an answer';
  if (ended) return `${what} was owed: ${ended.as} at ${clockTime(ended.at)}, ${facts(ended.by)}`;
  const more = [
    state,
    due === null ? '' : `due again ${clockTime(due)}`,
    returns === 0 ? '' : `came back ${returns === 1 ? 'once' : `${returns} times`}`,
    ['', 'a coordinator was told', 'a person was told'][tier] ?? '',
    note === null ? '' : lineForModel(note),
  ].filter(Boolean);
  return `owes ${what}: ${more.join(', ')}`;
}

/** Where the copy stands now, in words. */
function now(copy: Copy): string {
  switch (copy.state) {
    case 'stored':
      return 'waiting: nobody has taken it';
    case 'held':
      if (!copy.owner) return `waiting until ${time(copy.until)}`;
      return isOffered(copy)
        ? 'offered to a session; its next event settles it or makes it wait again'
        : `held by a reader until ${time(copy.until)}`;
    case 'settled':
      return copy.receipts.some(({ step }) => step === 'shown') ? 'ended' : 'ended; no proof that a model saw it';
    case 'gone':
      return 'another program took it; what became of it there is unknown';
  }
}

/** Is it in the hands of a session whose hook has printed it? */
function isOffered({ bearer, receipts }: Copy): boolean {
  const last = receipts.at(-1);
  return bearer && last?.step === 'offered' && last.evidence['by'] === 'hook';
}

function time(ms: number | null): string {
  return ms === null || Math.abs(ms) > 8.64e15 ? 'an unknown time' : new Date(ms).toISOString();
}

function facts(evidence: Record<string, string | number | boolean>): string {
  return Object.entries(evidence)
    .map(([name, value]) => lineForModel(`${name} ${value}`))
    .join(', ');
}

/** What a relay can prove; its words are another program's. spec: relay#trace */
const Told = new Schema(() =>
  v.object({
    copies: v.array(
      v.object({
        mailbox: v.string(),
        state: v.string(),
        disposition: v.nullish(v.string()),
        settledAt: v.nullish(v.string()),
        settledBy: v.nullish(Evidence.inner),
        receipts: v.optional(v.array(v.object({ step: v.string(), at: v.string(), evidence: Evidence.inner })), []),
      }),
    ),
  }),
);

function toldThere(context: Context, there: unknown): string {
  const told = Told.safeParse(there);
  if (!told.success) return '    it does not say what became of it';
  const { paint } = context;
  return told.data.copies
    .flatMap(({ mailbox, state, disposition, settledAt, settledBy, receipts }) => [
      `    ${paint.bold(`@${lineForModel(mailbox, 128)}`)}  ${lineForModel(state, 40)}`,
      ...receipts.map(
        ({ step, at, evidence }) =>
          `      ${lineForModel(step, 40).padEnd(16)} ${lineForModel(at, 40)}  ${facts(evidence)}`,
      ),
      ...(settledAt
        ? [
            `      ${'settled'.padEnd(16)} ${lineForModel(settledAt, 40)}  ${[lineForModel(disposition ?? 'unknown', 40), ...(settledBy ? [facts(settledBy)] : [])].join(', ')}`,
          ]
        : []),
    ])
    .join('\n');
}
