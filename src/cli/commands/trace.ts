import * as v from 'valibot';
import { command } from '../../core/command.ts';
import { clockTime } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { obligationFor } from '../../core/obligations/obligation.ts';
import { isOffer } from '../../core/obligations/owed.ts';
import { findMessage } from '../../core/mail/workspace.ts';
import type { Home } from '../../core/mail/workspace.ts';
import type { Obligation } from '../../core/obligations/rules.ts';
import type { MessageId } from '../../core/names.ts';
import { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Trace } from '../../core/ports/journal.ts';
import type { Context } from '../context.ts';
import {
  brief,
  evidenceWords,
  inWindow,
  isToNobody,
  NO_OWNER,
  stepsOf,
  takerOf,
  timeFor,
  UnseenSteps,
} from '../steps.ts';
import type { TracedCopy, ProvenStep } from '../steps.ts';
import { headline } from '../words.ts';

export default command({
  usage: 'trace <id>',
  about:
    'Shows each proven step of a message, for each recipient, with the evidence. A step without proof is not shown. ' +
    '--verbose gives whole times and ids, and the place in the client’s record.',
  options: {
    follow: { type: 'boolean', help: 'then print each further step when it is proven, until nothing is owed any more' },
  },
  words: [1, 1],
  examples: ['parley trace 1f2e3d4c', 'parley trace 1f2e3d4c --follow', 'parley trace 1f2e3d4c --json'],
  async run(context: Context, values, [prefix = '']) {
    const { home: found, id } = await findMessage(context.workspace, prefix);
    await found.mailboxes.heal();
    for (const { mailbox } of (await found.journal.trace(id))?.copies ?? []) await found.mailboxes.adopt(mailbox);
    const trace = await found.journal.trace(id);
    const there = await found.remote?.trace(id);
    const queuedAs = await found.remote?.queuedAs(id);
    if (!trace) throw new Refusal('not_found', `no message has the id ${id}`);
    const obligations = await obligationsOf(found, trace);
    if (context.json && values.follow) return followTrace(context, found, id, null);
    if (context.json)
      return context.sayJson({
        home: found.label,
        ...trace,
        copies: trace.copies.map((copy) => ({
          ...copy,
          steps: stepsOf(trace, copy, true),
          duty: obligations.get(copy.mailbox) ?? null,
        })),
        ...(found.remote && { relay: there, queuedAs }),
      });
    context.say(told(context, trace, found.label, obligations));
    if (queuedAs) context.say(`  queued here as ${queuedAs}; the relay gave it the id ${id}`);
    if (found.remote) context.say(`\n  at ${found.remote.url}\n${toldThere(context, there)}`);
    if (values.follow) await followTrace(context, found, id, trace);
  },
});

const FOLLOW_MS = 200;

/** Prints the steps that `shown` does not have, as they come. Ends when every copy has ended and no answer is owed. */
async function followTrace(context: Context, home: Home, id: MessageId, shown: Trace | null): Promise<void> {
  const unseen = new UnseenSteps();
  const news = (trace: Trace) => unseen.of(trace, context.json || context.verbose);
  if (shown) news(shown);
  // What ended it may have been written after the look at its steps: one more look has it.
  for (let isOver = false; ;) {
    const trace = await home.journal.trace(id);
    if (!trace) return;
    for (const step of news(trace)) {
      const { mailbox, step: name, at, evidence } = step;
      if (context.json) context.say(JSON.stringify(step));
      else context.say(stepLine(context, `  @${mailbox}  `, { step: name, at, evidence }));
    }
    if (isOver) return;
    const owed = [...(await obligationsOf(home, trace)).values()];
    const hasEnded = trace.copies.every(({ state }) => state === 'settled' || state === 'gone');
    isOver = hasEnded && owed.every(({ ended }) => ended);
    if (!isOver) await Bun.sleep(FOLLOW_MS);
  }
}

/** One step on one line: short, unless the user wants all of it. */
function stepLine(context: Context, before: string, { step, at, evidence }: ProvenStep): string {
  return inWindow(context, `${before}${context.paint.green(step.padEnd(16))} ${timeFor(context, at)}  ${evidence}`);
}

/** What each recipient owes or owed for it. What nobody has asked for yet is worked out and not written down: looking changes nothing. */
async function obligationsOf(home: Home, { message, copies }: Trace): Promise<Map<string, Obligation>> {
  const obligations = await Promise.all(
    copies.map(async (copy) => {
      const known = await home.journal.obligation(copy.mailbox, message.id);
      if (known || copy.attention.policy !== 'must_respond') return known;
      return obligationFor(home, copy, message);
    }),
  );
  return new Map(obligations.flatMap((obligation) => (obligation ? [[obligation.mailbox, obligation]] : [])));
}

function told(context: Context, trace: Trace, label: string, obligations: Map<string, Obligation>): string {
  const { paint } = context;
  const lines = [headline({ message: trace.message }, context.workspace.now(), paint), `  in home ${label}`];
  for (const copy of trace.copies) {
    const { directedness, policy, injection, reason } = copy.attention;
    lines.push('', `  ${paint.bold(`@${copy.mailbox}`)}  ${directedness} · ${policy} · ${injection} (${reason})`);
    for (const step of stepsOf(trace, copy, context.verbose)) lines.push(stepLine(context, '    ', step));
    const obligation = obligations.get(copy.mailbox);
    const isOpen = obligation !== undefined && !obligation.ended && !isOffer(obligation, copy);
    lines.push(`    ${paint.dim(stateOf(context, copy, isOpen))}`);
    if (obligation)
      lines.push(`    ${isOffer(obligation, copy) ? offered(context, obligation) : owed(context, obligation, copy)}`);
  }
  return lines.join('\n');
}

function offered(context: Context, { due }: Obligation): string {
  return `may claim it${due === null ? '' : ` until ${timeFor(context, clockTime(due))}, then the next agent is asked`}; owes nothing unless it does`;
}

/** The state of the obligation: a copy can have ended while its answer is still owed. */
function owed(context: Context, obligation: Obligation, copy: TracedCopy): string {
  const { kind, state, due, returns, tier, note, ended } = obligation;
  const what = kind === 'obligation' ? 'an obligation' : 'an answer';
  if (ended) {
    const proof = context.verbose ? evidenceWords(ended.by) : brief(ended.by);
    return `${what} was owed: ${ended.as} at ${timeFor(context, clockTime(ended.at))}, ${proof}`;
  }
  const more = [
    state,
    // After a notice it does not come back.
    due === null || tier > 0 ? '' : `due again ${timeFor(context, clockTime(due))}`,
    returns === 0 ? '' : `came back ${returns === 1 ? 'once' : `${returns} times`}`,
    tier === 0 ? '' : noticed(copy),
    note === null ? '' : lineForModel(note),
  ].filter(Boolean);
  return `owes ${what}: ${more.join(', ')}`;
}

/** Who was told that it is left undone. */
function noticed({ receipts }: TracedCopy): string {
  const last = receipts.findLast(({ step }) => step === 'escalated');
  if (!last) return 'another got a notice';
  return isToNobody(last) ? NO_OWNER : `@${lineForModel(String(last.evidence['to']), 128)} got a notice`;
}

/** The state of the copy. `isOpen`: something is still owed for it. */
function stateOf(context: Context, copy: TracedCopy, isOpen: boolean): string {
  const until = timeFor(context, clockTime(copy.until ?? Infinity));
  switch (copy.state) {
    case 'stored':
      return 'waiting: nobody has taken it';
    case 'held':
      if (!copy.owner) return `waiting until ${until}`;
      if (isHandedOver(copy)) return 'handed to a running session; its record settles it, or it waits again';
      return isOffered(copy)
        ? 'offered to a session; the next event of that session settles it, or it waits again'
        : `held by a reader until ${until}`;
    case 'settled':
      if (takerOf(copy) !== null) return 'ended here; what is proven follows below';
      return `${isOpen ? 'no longer waits' : 'ended'}${isShown(copy) ? '' : '; no proof that a model saw it'}`;
    case 'gone':
      return 'another program took it; what happened then is unknown';
  }
}

function isShown({ receipts }: TracedCopy): boolean {
  return receipts.some(({ step }) => step === 'shown');
}

/** Is it in the hands of a session whose hook has printed it? */
function isOffered({ bearer, receipts }: TracedCopy): boolean {
  const last = receipts.at(-1);
  return bearer && last?.step === 'offered' && last.evidence['by'] === 'hook';
}

/** Did the daemon hand it to a running session? */
function isHandedOver({ bearer, receipts }: TracedCopy): boolean {
  const last = receipts.at(-1);
  return bearer && last?.step === 'offered' && 'folder' in last.evidence;
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
  if (!told.success) return '    the relay has no trace of it';
  const { paint } = context;
  return told.data.copies
    .flatMap(({ mailbox, state, disposition, settledAt, settledBy, receipts }) => [
      `    ${paint.bold(`@${lineForModel(mailbox, 128)}`)}  ${lineForModel(state, 40)}`,
      ...receipts.map(
        ({ step, at, evidence }) =>
          `      ${lineForModel(step, 40).padEnd(16)} ${timeFor(context, lineForModel(at, 40))}  ${evidenceWords(evidence)}`,
      ),
      ...(settledAt
        ? [
            `      ${'settled'.padEnd(16)} ${timeFor(context, lineForModel(settledAt, 40))}  ${[lineForModel(disposition ?? 'unknown', 40), ...(settledBy ? [evidenceWords(settledBy)] : [])].join(', ')}`,
          ]
        : []),
    ])
    .join('\n');
}
