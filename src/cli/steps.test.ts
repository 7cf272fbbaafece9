import { describe, expect, it } from 'bun:test';
import { aMessage } from '../../test/support/mail.ts';
import { AgentName } from '../core/names.ts';
import type { Trace } from '../core/ports/journal.ts';
import { receipt } from '../core/receipt.ts';
import { brief, stepsOf, UnseenSteps } from './steps.ts';
import type { TracedCopy } from './steps.ts';

const message = aMessage();
const SENT = receipt('stored', Date.parse(message.ts), { folder: 'api' });
const OFFERED = receipt('offered', Date.parse(message.ts) + 1000, { by: 'hook' });
const SHOWN = receipt('shown', Date.parse(message.ts) + 2000, { by: 'record' });

function aCopy(mailbox: string, fields: Partial<TracedCopy> = {}): TracedCopy {
  return {
    mailbox: AgentName.parse(mailbox),
    id: message.id,
    attention: { directedness: 'to_me', policy: 'must_respond', injection: 'buffered', reason: 'direct_message' },
    state: 'stored',
    attempt: 0,
    owner: null,
    bearer: false,
    until: null,
    disposition: null,
    settledAt: null,
    settledBy: null,
    keep: false,
    receipts: [],
    ...fields,
  };
}

describe('the short form of evidence', () => {
  it.each([
    [
      { way: 'plugin', client: 'opencode', session: 'ses_1', folder: '/api', pid: 29994, start: '222015', woke: true },
      'way plugin, client opencode, woke it',
    ],
    [
      { record: '/rollout', offset: 36000, id: message.id, turn: 't', output: 'msg_2', provenAt: 36126, way: 'rpc' },
      'way rpc, in the client’s record',
    ],
    [
      { record: '/opencode.db', id: message.id, message: 'msg_1', answer: 'msg_2', parent: 'msg_1', way: 'plugin' },
      'way plugin, in the client’s record',
    ],
    [
      { way: 'rpc', client: 'kimi', session: 's', server: 4321, because: 'it was busy' },
      'way rpc, client kimi, because it was busy',
    ],
  ])('has no process, no place in a record and no id of a client: %j', (evidence, words) => {
    expect(brief(evidence)).toBe(words);
  });
});

describe('a message of a shared mailbox that one session took', () => {
  const ended = {
    state: 'settled',
    disposition: 'acknowledged',
    settledAt: SHOWN.at,
    settledBy: { by: 'record', taker: 'claude.api' },
  } as const;
  const before: Trace = { message, copies: [aCopy('claude', { receipts: [SENT, OFFERED] })] };
  // As `assign` of the journal leaves it.
  const after: Trace = {
    message,
    copies: [aCopy('claude', ended), aCopy('claude.api', { ...ended, receipts: [SENT, OFFERED, SHOWN] })],
  };

  it('was stored in the shared mailbox, not once more in that of the session', () => {
    const [shared, taken] = after.copies.map((copy) => stepsOf(after, copy, true));
    expect(shared?.map(({ step, evidence }) => [step, evidence])).toEqual([
      ['stored', 'flushed to disk, sent from api'],
      ['settled', 'taken by @claude.api'],
    ]);
    expect(taken?.map(({ step }) => step)).toEqual(['offered', 'shown', 'settled']);
  });

  it('gives each step once to those who follow it', () => {
    const unseen = new UnseenSteps();
    const given = (trace: Trace) => unseen.of(trace, false).map(({ mailbox, step }) => `${mailbox} ${step}`);
    expect(given(before)).toEqual(['claude stored', 'claude offered']);
    expect(given(after)).toEqual(['claude settled', 'claude.api shown', 'claude.api settled']);
    expect(given(after)).toEqual([]);
  });

  it('is not mixed up with a copy of its own, in which the same happened at the same time', () => {
    const both: Trace = { message, copies: ['ann', 'bob'].map((name) => aCopy(name, { receipts: [OFFERED] })) };
    expect(new UnseenSteps().of(both, false).map(({ mailbox, step }) => `${mailbox} ${step}`)).toEqual([
      'ann stored',
      'ann offered',
      'bob stored',
      'bob offered',
    ]);
  });
});
