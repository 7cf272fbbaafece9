import { lineForModel } from '../core/gate.ts';
import type { Trace } from '../core/ports/journal.ts';
import type { Receipt } from '../core/receipt.ts';
import { columns, isTerminal } from '../platform/terminal.ts';
import type { Context } from './context.ts';

/** When and by what a step was proven. */
export interface ProvenStep {
  step: string;
  at: string;
  evidence: string;
}

/** A step of one recipient's copy. */
export interface CopyStep extends ProvenStep {
  mailbox: string;
}

export type TracedCopy = Trace['copies'][number];

/** The proven steps of one copy, in order, with all of the evidence or the short form of it. */
export function stepsOf(trace: Trace, copy: TracedCopy, isWhole: boolean): ProvenStep[] {
  const words = isWhole ? evidenceWords : brief;
  const all = receiptsOf(trace, copy);
  // Of a copy that another program stored we know only that it was found: a receipt says so.
  const sent = all.filter(({ step, evidence }) => step === 'stored' && 'folder' in evidence);
  const receipts = all.filter((one) => !sent.includes(one));
  const ours = !isTakers(copy) && receipts.every(({ step }) => step !== 'stored');
  const from = (isWhole ? sent : [])
    .map(({ evidence }) => `, sent from ${lineForModel(String(evidence['folder']), 400)}`)
    .join('');
  const stored = { step: 'stored', at: trace.message.ts, evidence: `flushed to disk${from}` };
  const seen = receipts.map((one) => ({
    step: one.step,
    at: one.at,
    evidence: isToNobody(one) ? NO_OWNER : words(one.evidence),
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

export const NO_OWNER = 'nobody got a notice: there is no owner';

/** Is it left undone, and there was nobody to tell? */
export function isToNobody({ step, evidence }: Pick<Receipt, 'step' | 'evidence'>): boolean {
  return step === 'escalated' && evidence['to'] === 'nobody';
}

/** The agent that took a copy of a shared mailbox has its receipts. But the message was stored in the shared mailbox, not in its own. */
function receiptsOf({ copies }: Trace, copy: TracedCopy): Receipt[] {
  if (isTakers(copy)) return copy.receipts.filter(({ step }) => step !== 'stored');
  const taker = copies.find((one) => isTakers(one) && isTakenBy(copy, one));
  return [...(taker?.receipts.filter(({ step }) => step === 'stored') ?? []), ...copy.receipts];
}

/** Is this what an agent took out of a mailbox that several share? */
function isTakers({ mailbox, settledBy }: TracedCopy): boolean {
  return settledBy?.['taker'] === mailbox;
}

function isTakenBy({ mailbox, settledBy }: TracedCopy, taker: TracedCopy): boolean {
  return mailbox !== taker.mailbox && settledBy?.['taker'] === taker.mailbox;
}

function endOf(copy: TracedCopy, words: typeof evidenceWords): string {
  const taker = takerOf(copy);
  if (taker !== null) return `taken by @${taker}`;
  return `${copy.disposition ?? 'unknown'}${copy.settledBy ? `, ${words(copy.settledBy)}` : ''}`;
}

/** Who took it, if it waited in a mailbox that several share. The proof is with the taker's copy. */
export function takerOf({ mailbox, settledBy }: TracedCopy): string | null {
  const taker = settledBy?.['taker'];
  return taker === undefined || taker === mailbox ? null : lineForModel(String(taker), 128);
}

/** The steps of one message that were not asked for before. */
export class UnseenSteps {
  readonly #seen = new Set<string>();

  /** A receipt that moved to the agent that took the copy is the step that was seen in the shared mailbox. */
  of(trace: Trace, isWhole: boolean): CopyStep[] {
    return trace.copies.flatMap((copy) => {
      const shared = trace.copies.filter((one) => isTakenBy(one, copy));
      return stepsOf(trace, copy, isWhole)
        .filter((step) => {
          const [own = '', ...others] = [copy, ...shared].map(({ mailbox }) => JSON.stringify([mailbox, step]));
          const isSeen = [own, ...others].some((key) => this.#seen.has(key));
          this.#seen.add(own);
          return !isSeen;
        })
        .map((step) => ({ mailbox: copy.mailbox, ...step }));
    });
  }
}

/** A time for people: local and short, or whole with `--verbose`. What is no time stays as it is. */
export function timeFor({ verbose }: Pick<Context, 'verbose'>, at: string): string {
  const date = new Date(at);
  if (verbose || Number.isNaN(date.getTime())) return at;
  const time = date.toTimeString().slice(0, 8);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? time : `${day.map((part) => String(part).padStart(2, '0')).join('-')} ${time}`;
}

/** As much of a line as fits into the window as it is now; all of it with `--verbose`, and for a pipe. */
export function inWindow({ verbose }: Pick<Context, 'verbose'>, line: string): string {
  return verbose || !isTerminal(1) ? line : Bun.sliceAnsi(line, 0, columns(), '…');
}

export function evidenceWords(evidence: Receipt['evidence']): string {
  return Object.entries(evidence)
    .map(([name, value]) => lineForModel(`${name} ${value}`))
    .join(', ');
}

/** Which process and which entry of a record prove a step, but nobody reads them: `--verbose` has them. */
const PLACES = [
  'session',
  'folder',
  'pid',
  'start',
  'server',
  'lease',
  'record',
  'transcript',
  'offset',
  'provenAt',
  'entry',
  'request',
  'turn',
  'id',
  'message',
  'answer',
  'parent',
  'output',
];
const UUID = /^([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The same in few words. */
export function brief(evidence: Receipt['evidence']): string {
  const rest = Object.entries(evidence).filter(([name]) => !PLACES.includes(name));
  const short = rest.map(([name, value]) => [name, String(value).replace(UUID, '$1')]);
  const words = [
    evidenceWords(Object.fromEntries(short.filter(([name]) => name !== 'woke')) as Record<string, string>),
    evidence['woke'] === true ? 'woke it' : '',
    'record' in evidence ? 'in the client’s record' : '',
  ];
  return words.filter(Boolean).join(', ');
}
