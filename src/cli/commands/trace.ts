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
import { HOST_NAME } from '../../core/signal.ts';
import { isTerminal } from '../../platform/terminal.ts';
import type { Context } from '../context.ts';
import { gist, headline } from '../words.ts';

const traceCommand = command({
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
      .flatMap((copy) =>
        steps(trace, copy, context.json || context.verbose).map((step) => ({ mailbox: copy.mailbox, ...step })),
      )
      .filter((step) => !told.has(JSON.stringify(step)) && told.add(JSON.stringify(step)));
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

/** When and by what a step was proven. */
interface Step {
  step: string;
  at: string;
  evidence: string;
}

/** One step on one line: short, unless the user wants all of it. */
function stepLine(context: Context, before: string, { step, at, evidence }: Step): string {
  const time = context.verbose ? at : localTime(at);
  const taken = before.length + Math.max(step.length, 16) + time.length + 3;
  const proof = context.verbose ? evidence : fitting(evidence, taken);
  return `${before}${context.paint.green(step.padEnd(16))} ${time}  ${proof}`;
}

/** The time of day; with the date if it is another day. */
function localTime(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const time = date.toTimeString().slice(0, 8);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? time : `${day.map((part) => String(part).padStart(2, '0')).join('-')} ${time}`;
}

/** As much as fits into the rest of the terminal's line. A pipe gets all of it. */
function fitting(text: string, taken: number): string {
  const room = isTerminal(1) ? Math.max((process.stdout.columns || 80) - taken, 8) : Infinity;
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
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

/** As an escalation names its receiver where there is none, and what that means. */
const NOBODY = 'nobody';
const NO_OWNER = 'nobody got a notice: there is no owner';

/** The proven steps of one copy, in order, with all of the evidence or the short form of it. */
function steps(trace: Trace, copy: Copy, isWhole = true): Step[] {
  const words = isWhole ? facts : brief;
  // Of a copy that another program stored we know only that it was found: a receipt says so.
  const sent = copy.receipts.filter(({ step, evidence }) => step === 'stored' && 'folder' in evidence);
  const receipts = copy.receipts.filter((one) => !sent.includes(one));
  const ours = receipts.every(({ step }) => step !== 'stored');
  const from = (isWhole ? sent : [])
    .map(({ evidence }) => `, sent from ${lineForModel(String(evidence['folder']), 400)}`)
    .join('');
  const stored = { step: 'stored', at: trace.message.ts, evidence: `flushed to disk${from}` };
  const seen = receipts.map(({ step, at, evidence }) => ({
    step,
    at,
    evidence: step === 'escalated' && evidence['to'] === NOBODY ? NO_OWNER : words(evidence),
  }));
  const end =
    copy.state === 'settled'
      ? [
          {
            step: 'settled',
            at: copy.settledAt ?? '',
            evidence: endOf(copy, words),
          },
        ]
      : [];
  // A copy can have ended before it was answered. Of two at the same time the first written comes first.
  const later = [...seen, ...end].sort((a, b) => Number(a.at > b.at) - Number(a.at < b.at));
  return [...(ours ? [stored] : []), ...later];
}

function endOf(copy: Copy, words: typeof facts): string {
  const taker = takerOf(copy);
  if (taker !== null) return `taken by @${taker}`;
  return `${copy.disposition ?? 'unknown'}${copy.settledBy ? `, ${words(copy.settledBy)}` : ''}`;
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
    for (const step of steps(trace, copy, context.verbose)) lines.push(stepLine(context, '    ', step));
    const obligation = obligations.get(copy.mailbox);
    const isOpen = obligation !== undefined && !obligation.ended && !isOffer(obligation, copy);
    lines.push(`    ${paint.dim(now(copy, isOpen))}`);
    if (obligation)
      lines.push(`    ${isOffer(obligation, copy) ? offered(obligation) : owed(obligation, copy, context.verbose)}`);
  }
  return lines.join('\n');
}

function offered({ due }: Obligation): string {
  return `may claim it${due === null ? '' : ` until ${clockTime(due)}, then the next agent is asked`}; owes nothing unless it does`;
}

/** The state of the obligation: a copy can have ended while its answer is still owed. */
function owed(obligation: Obligation, copy: Copy, isWhole: boolean): string {
  const { kind, state, due, returns, tier, note, ended } = obligation;
  const what = kind === 'obligation' ? 'an obligation' : 'an answer';
  if (ended) {
    const at = clockTime(ended.at);
    return isWhole
      ? `${what} was owed: ${ended.as} at ${at}, ${facts(ended.by)}`
      : `${what} was owed: ${ended.as} at ${localTime(at)}, ${brief(ended.by)}`;
  }
  const more = [
    state,
    // After a notice it does not come back.
    due === null || tier > 0 ? '' : `due again ${clockTime(due)}`,
    returns === 0 ? '' : `came back ${returns === 1 ? 'once' : `${returns} times`}`,
    tier === 0 ? '' : noticed(copy),
    note === null ? '' : lineForModel(note),
  ].filter(Boolean);
  return `owes ${what}: ${more.join(', ')}`;
}

/** Who was told that it is left undone. */
function noticed({ receipts }: Copy): string {
  const to = receipts.findLast(({ step }) => step === 'escalated')?.evidence['to'];
  if (to === undefined) return 'another got a notice';
  return to === NOBODY ? NO_OWNER : `@${lineForModel(String(to), 128)} got a notice`;
}

/** The state of the copy. `isOpen`: something is still owed for it. */
function now(copy: Copy, isOpen: boolean): string {
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
      return `${isOpen ? 'no longer waits' : 'ended'}${isShown(copy) ? '' : '; no proof that a model saw it'}`;
    case 'gone':
      return 'another program took it; what happened then is unknown';
  }
}

function isShown({ receipts }: Copy): boolean {
  return receipts.some(({ step }) => step === 'shown');
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

/** Where a record is proves a step, but nobody reads it: `--verbose` has it. */
const PLACES = ['session', 'folder', 'offset', 'entry', 'request', 'turn', 'id', 'record'];
const UUID = /^([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The same in few words. */
function brief(evidence: Record<string, string | number | boolean>): string {
  const rest = Object.entries(evidence).filter(([name]) => !PLACES.includes(name));
  const short = rest.map(([name, value]) => [name, String(value).replace(UUID, '$1')]);
  const words = [
    facts(Object.fromEntries(short) as Record<string, string>),
    'record' in evidence ? 'in the client’s record' : '',
  ];
  return words.filter(Boolean).join(', ');
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

/** How many of the newest messages of each home are looked at. */
const LIVE_MESSAGES = 50;
const LIVE_MS = 250;

const liveCommand = command({
  usage: 'live',
  about:
    'Shows the messages of all homes as they happen, with each proven step. It takes nothing and changes nothing. Ends with Ctrl-C.\n' +
    'With --json: one line per message and per step. --verbose gives the whole evidence.',
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
    // A notice that nobody could get waits for an owner.
    if (!trace || (trace.message.from === HOST_NAME && trace.copies.length === 0)) return;
    const { message } = trace;
    const { context, home } = this;
    const told = this.#told.get(id) ?? new Set();
    this.#told.set(id, told);
    if (isNew && context.json) context.say(JSON.stringify({ home: home.label, message }));
    else if (isNew) {
      const who = headline({ message }, context.workspace.now(), context.paint);
      const room = Bun.stringWidth(who) + 2;
      context.say(`${who}  ${context.verbose ? gist(message.body) : fitting(gist(message.body), room)}`);
    }
    for (const copy of trace.copies) {
      for (const step of steps(trace, copy, context.json || context.verbose)) {
        const line = JSON.stringify({ home: home.label, id, mailbox: copy.mailbox, ...step });
        if (told.has(line)) continue;
        told.add(line);
        if (!isShown || step.step === 'stored') continue;
        const { green, dim } = context.paint;
        const taken = shortId(id).length + copy.mailbox.length + step.step.length + 9;
        const proof = context.verbose ? step.evidence : fitting(step.evidence, taken);
        const words = `${dim(shortId(id))}  @${copy.mailbox}  ${green(step.step)}  ${dim(proof)}`;
        context.say(context.json ? line : `  ${words}`);
      }
    }
  }
}

export const commands = { trace: traceCommand, live: liveCommand };
