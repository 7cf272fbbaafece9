import fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { aMessage, bob } from '../../../test/support/mail.ts';
import type { BrokerEntry } from './entry.ts';
import type { Message } from '../../core/message.ts';
import type { MessageId } from '../../core/names.ts';
import { entryText, entryFingerprint, messageOf } from './entry.ts';

const there = (message: Message): BrokerEntry => JSON.parse(entryText(message, bob)) as BrokerEntry;
const id = 'x' as MessageId;

describe('an entry of an inbox', () => {
  it('gives back the message that was put there, whatever it says', () => {
    const fields = fc.record(
      {
        from: fc.string(),
        to: fc.constantFrom('@bob', '@carol', '#dev', '#ünï', '@bob%far', ''),
        body: fc.string({ unit: 'binary' }),
        priority: fc.constantFrom('normal', 'urgent', 'odd'),
        scope: fc.string(),
        thread: fc.string(),
        refs: fc.array(fc.string()),
        ts: fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }).map((date) => date.toISOString()),
        parley: fc.constantFrom({ v: 1 as const, key: 'k' }, { v: 1 as const, intent: 'question' as const }),
        content: fc.jsonValue(),
        from_alias: fc.string(),
        deferrable: fc.constant(true),
        message_id: fc.string(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fields, (some) => {
        const message = aMessage(JSON.parse(JSON.stringify(some)) as Partial<Message>);
        expect(messageOf(there(message), bob, message.id)).toEqual(message);
      }),
    );
  });

  it('is the original’s own for a plain message, with nothing of ours [C2C-3]', () => {
    const message = aMessage({ ts: '2026-01-02T03:04:05.000Z', body: 'hi' });
    expect(entryText(message, bob)).toBe(
      `{"from_alias":"alice","to_alias":"bob","content":"hi","ts":1767323045.0,"message_id":"${message.id}"}`,
    );
    expect(there(aMessage({ to: '#dev' })).to_alias).toBe('bob#dev');
  });

  it.each([
    ['says no time', {}, '1970-01-01T00:00:00.000Z'],
    ['says a time that is none', { ts: 'noon' }, '1970-01-01T00:00:00.000Z'],
    ['says a time that no calendar has', { ts: 1e300 }, '1970-01-01T00:00:00.000Z'],
    ['says a time before all others', { ts: -5 }, '1970-01-01T00:00:00.000Z'],
    ['says its time to the microsecond', { ts: 1767323045.123456 }, '2026-01-02T03:04:05.123Z'],
  ])('of another program that %s is a message all the same', (_what, fields, ts) => {
    const entry = { from_alias: 'x', to_alias: 'bob', content: 'hi', ...fields } as unknown as BrokerEntry;
    expect(messageOf(entry, bob, id)).toEqual({ id, from: 'x', to: '@bob', body: 'hi', priority: 'normal', ts });
  });

  it.each([
    ['bob', '@bob'],
    ['BOB', '@bob'],
    ['carol', '@carol'],
    ['bob#lounge', '#lounge'],
    ['bob#../x', '@bob'],
    ['', '@bob'],
    ['a b\n', '@bob'],
  ])('to "%s" is for %s', (to_alias, to) => {
    expect(messageOf({ from_alias: 'x', to_alias, content: '', ts: 0 }, bob, id).to).toBe(to);
  });

  it('is believed nothing under our key that could not be so', () => {
    const parley = {
      v: 1,
      to: 5,
      ts: 'noon',
      refs: 'x',
      extras: { v: 2, key: '\n' },
      rest: { id: 'other', from: 'boss' },
    };
    const entry = { from_alias: 'x', to_alias: 'bob', content: 'hi', ts: 1, parley } as unknown as BrokerEntry;
    const message = messageOf(entry, bob, id);
    expect(message).toMatchObject({ id, from: 'x', to: '@bob', body: 'hi' });
    expect([message.parley, message.refs]).toEqual([undefined, undefined]);
  });

  it('without an id is known by its words and its time', () => {
    const one = { from_alias: 'x', to_alias: 'bob', content: 'hi', ts: 1 } as BrokerEntry;
    expect(entryFingerprint({ ...one, extra: 1 })).toBe(entryFingerprint(one));
    const others = [
      { ...one, ts: 2 },
      { ...one, content: 'ho' },
      { ...one, from_alias: 'y' },
      { ...one, to_alias: 'bob#r' },
    ];
    expect(new Set([one, ...others].map(entryFingerprint)).size).toBe(5);
  });
});
