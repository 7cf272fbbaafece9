import * as v from 'valibot';
import { command } from '../../core/command.ts';
import { clockTime, countFrom } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { obligationFor } from '../../core/obligations/obligation.ts';
import { isOffer } from '../../core/obligations/owed.ts';
import { findMessage } from '../../core/mail/workspace.ts';
import type { Home } from '../../core/mail/workspace.ts';
import type { Obligation } from '../../core/obligations/rules.ts';
import { shortId } from '../../core/names.ts';
import type { MessageId } from '../../core/names.ts';
import { Evidence } from '../../core/receipt.ts';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Trace } from '../../core/ports/journal.ts';
import type { Context } from '../context.ts';
import { gist, headline } from '../words.ts';

const traceCommand = command({
  usage: 'trace <id>',
  about:
    'Shows each proven step of a message, for each recipient, with the evidence. A step without proof is not shown.',
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
          steps: steps(trace, copy),
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
  const told = new Set<string>();
  const news = (trace: Trace) =>
    trace.copies
      .flatMap((copy) => steps(trace, copy).map((step) => ({ mailbox: copy.mailbox, ...step })))
      .filter((step) => !told.has(JSON.stringify(step)) && told.add(JSON.stringify(step)));
  if (shown) news(shown);
  for (;;) {
    const trace = await home.journal.trace(id);
    if (!trace) return;
    for (const step of news(trace)) {
      const { mailbox, step: name, at, evidence } = step;
      if (context.json) context.say(JSON.stringify(step));
      else context.say(`  @${mailbox}  ${context.paint.green(name.padEnd(16))} ${at}  ${evidence}`);
    }
    const owed = [...(await obligationsOf(home, trace)).values()];
    const isOver = trace.copies.every(({ state }) => state === 'settled' || state === 'gone');
    if (isOver && owed.every(({ ended }) => ended)) return;
    await Bun.sleep(FOLLOW_MS);
  }
}

type Copy = Trace['copies'][number];

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

/** The proven steps of one copy, in order. */
function steps(trace: Trace, copy: Copy): { step: string; at: string; evidence: string }[] {
  // Of a copy that another program stored we know only that it was found: a receipt says so.
  const sent = copy.receipts.filter(({ step, evidence }) => step === 'stored' && 'folder' in evidence);
  const receipts = copy.receipts.filter((one) => !sent.includes(one));
  const ours = receipts.every(({ step }) => step !== 'stored');
  const from = sent.map(({ evidence }) => `, sent from ${lineForModel(String(evidence['folder']), 400)}`).join('');
  const stored = { step: 'stored', at: trace.message.ts, evidence: `flushed to disk${from}` };
  const seen = receipts.map(({ step, at, evidence }) => ({ step, at, evidence: facts(evidence) }));
  const end =
    copy.state === 'settled'
      ? [
          {
            step: 'settled',
            at: copy.settledAt ?? '',
            evidence: endOf(copy),
          },
        ]
      : [];
  // A copy can have ended before it was answered. Of two at the same time the first written comes first.
  const later = [...seen, ...end].sort((a, b) => Number(a.at > b.at) - Number(a.at < b.at));
  return [...(ours ? [stored] : []), ...later];
}

function endOf(copy: Copy): string {
  const taker = takerOf(copy);
  if (taker !== null) return `taken by @${taker}`;
  return `${copy.disposition ?? 'unknown'}${copy.settledBy ? `, ${facts(copy.settledBy)}` : ''}`;
}

/** Who took it, if it waited in a mailbox that several share. The proof is with the taker's copy. */
function takerOf({ mailbox, settledBy }: Copy): string | null {
  const taker = settledBy?.['taker'];
  return taker === undefined || taker === mailbox ? null : lineForModel(String(taker), 128);
}

function told(context: Context, trace: Trace, label: string, obligations: Map<string, Obligation>): string {
  const { paint } = context;
  const lines = [headline({ message: trace.message }, context.workspace.now(), paint), `  in home ${label}`];
  for (const copy of trace.copies) {
    const { directedness, policy, injection, reason } = copy.attention;
    lines.push('', `  ${paint.bold(`@${copy.mailbox}`)}  ${directedness} · ${policy} · ${injection} (${reason})`);
    for (const { step, at, evidence } of steps(trace, copy)) {
      lines.push(`    ${paint.green(step.padEnd(16))} ${at}  ${evidence}`);
    }
    lines.push(`    ${paint.dim(now(copy))}`);
    const obligation = obligations.get(copy.mailbox);
    if (obligation) lines.push(`    ${isOffer(obligation, copy) ? offered(obligation) : owed(obligation)}`);
  }
  return lines.join('\n');
}

function offered({ due }: Obligation): string {
  return `may claim it${due === null ? '' : ` until ${clockTime(due)}, then the next agent is asked`}; owes nothing unless it does`;
}

/** The state of the obligation: a copy can have ended while its answer is still owed. */
function owed({ kind, state, due, returns, tier, note, ended }: Obligation): string {
  const what = kind === 'obligation' ? 'an obligation' : 'an answer';
  if (ended) return `${what} was owed: ${ended.as} at ${clockTime(ended.at)}, ${facts(ended.by)}`;
  const more = [
    state,
    due === null ? '' : `due again ${clockTime(due)}`,
    returns === 0 ? '' : `came back ${returns === 1 ? 'once' : `${returns} times`}`,
    ['', 'a coordinator got a notice', 'a person got a notice'][tier] ?? '',
    note === null ? '' : lineForModel(note),
  ].filter(Boolean);
  return `owes ${what}: ${more.join(', ')}`;
}

/** The state of the copy. */
function now(copy: Copy): string {
  switch (copy.state) {
    case 'stored':
      return 'waiting: nobody has taken it';
    case 'held':
      if (!copy.owner) return `waiting until ${time(copy.until)}`;
      if (isHandedOver(copy)) return 'handed to a running session; its record settles it, or it waits again';
      return isOffered(copy)
        ? 'offered to a session; the next event of that session settles it, or it waits again'
        : `held by a reader until ${time(copy.until)}`;
    case 'settled':
      if (takerOf(copy) !== null) return 'ended here; what is proven follows below';
      return copy.receipts.some(({ step }) => step === 'shown') ? 'ended' : 'ended; no proof that a model saw it';
    case 'gone':
      return 'another program took it; what happened then is unknown';
  }
}

/** Is it in the hands of a session whose hook has printed it? */
function isOffered({ bearer, receipts }: Copy): boolean {
  const last = receipts.at(-1);
  return bearer && last?.step === 'offered' && last.evidence['by'] === 'hook';
}

/** Did the daemon hand it to a running session? */
function isHandedOver({ bearer, receipts }: Copy): boolean {
  const last = receipts.at(-1);
  return bearer && last?.step === 'offered' && 'folder' in last.evidence;
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
  if (!told.success) return '    the relay has no trace of it';
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

/** So many of the newest messages of each home are looked at. */
const LIVE_MESSAGES = 50;
const LIVE_MS = 250;

const liveCommand = command({
  usage: 'live',
  about:
    'Shows the messages of all homes as they happen, with each proven step. It takes nothing and changes nothing. Ends with Ctrl-C.\n' +
    'With --json: one line per message and per step.',
  options: {
    last: { type: 'string', value: 'n', help: `begin with the last n messages (default 5, at most ${LIVE_MESSAGES})` },
  },
  examples: ['parley live', 'parley live --last 20', 'parley live --json'],
  async run(context: Context, values) {
    const last = Math.min(countFrom(values.last, 5), LIVE_MESSAGES);
    const watches = context.workspace.homes.map((home) => new LiveHome(context, home));
    for (const watch of watches) await watch.begin(last);
    if (!context.json) context.note('waiting for messages; Ctrl-C ends it');
    for (;;) {
      for (const watch of watches) await watch.look();
      await Bun.sleep(LIVE_MS);
    }
  },
});

/** What is new in one home since the last look. */
class LiveHome {
  /** The steps that were told, by message. */
  readonly #told = new Map<MessageId, Set<string>>();
  #newest = 0;

  constructor(
    readonly context: Context,
    readonly home: Home,
  ) {}

  async begin(last: number): Promise<void> {
    const rows = await this.home.journal.history({ limit: LIVE_MESSAGES });
    // What is older than those that are shown is not news.
    for (const { message } of rows.slice(last)) await this.#tell(message.id, false);
    this.#newest = rows[last]?.seq ?? 0;
  }

  async look(): Promise<void> {
    const rows = await this.home.journal.history({ limit: LIVE_MESSAGES });
    const watched = new Set(rows.map(({ message }) => message.id));
    for (const id of this.#told.keys()) if (!watched.has(id)) this.#told.delete(id);
    for (const { seq, message } of rows.toReversed()) {
      await this.#tell(message.id, true, seq > this.#newest);
      this.#newest = Math.max(seq, this.#newest);
    }
  }

  async #tell(id: MessageId, isShown: boolean, isNew = false): Promise<void> {
    const trace = await this.home.journal.trace(id);
    if (!trace) return;
    const { message } = trace;
    const { context, home } = this;
    const told = this.#told.get(id) ?? new Set();
    this.#told.set(id, told);
    if (isNew && context.json) context.say(JSON.stringify({ home: home.label, message }));
    else if (isNew)
      context.say(`${headline({ message }, context.workspace.now(), context.paint)}  ${gist(message.body)}`);
    for (const copy of trace.copies) {
      for (const step of steps(trace, copy)) {
        const line = JSON.stringify({ home: home.label, id, mailbox: copy.mailbox, ...step });
        if (told.has(line)) continue;
        told.add(line);
        if (!isShown || step.step === 'stored') continue;
        const { green, dim } = context.paint;
        const words = `${dim(shortId(id))}  @${copy.mailbox}  ${green(step.step)}  ${dim(step.evidence)}`;
        context.say(context.json ? line : `  ${words}`);
      }
    }
  }
}

export const commands = { trace: traceCommand, live: liveCommand };
