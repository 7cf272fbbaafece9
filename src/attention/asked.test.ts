import { describe, expect, it } from 'bun:test';
import { asksAgain } from './asked.ts';

const exchange = [
  { body: 'Should we cache the sessions in memory?' },
  { body: 'I would rather not. Shall I go first, or will you?' },
  { body: 'Is src/api/users.ts yours?' },
];

describe('a question in an exchange that goes round in circles', () => {
  it.each([
    ['in the same words', 'Should we cache the sessions in memory?'],
    ['in other letters, with other small words', 'WELL, so should we then cache the sessions in memory??'],
    ['turned round', 'In memory, should we cache the sessions?'],
    ['about a file that was asked about', 'Is `src/api/users.ts` yours, or is src/api/users.ts mine?'],
    ['without anything that it is about', 'How are you today?'],
    ['that only wants a nod', 'ok, right?'],
  ])('is asked again %s', (_how, body) => {
    expect(asksAgain(body, exchange)).toBe(true);
  });

  it.each([
    ['about something else', 'Should we cache the thumbnails on disk?'],
    ['about another file', 'Is src/api/teams.ts yours?'],
    ['with a number that nobody named', 'Should we cache the sessions in memory for 30 minutes?'],
    ['that was only said, and not asked', 'Which port does the relay use?'],
  ])('is new %s', (_how, body) => {
    expect(asksAgain(body, [...exchange, { body: 'The relay has a port.' }])).toBe(false);
  });
});
