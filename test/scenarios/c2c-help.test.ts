import { describe, expect, it } from 'bun:test';
import { C2C_COMMANDS } from '../../src/cli/table.ts';
import { Brokerage } from '../support/c2c.ts';

describe('who asks a command of c2c how it is used', () => {
  it('is told, and nothing is done', async () => {
    const place = new Brokerage();
    const asked = C2C_COMMANDS.map(({ name }) => name);
    for (const name of asked) expect(await place.said([name, '--help'])).toStartWith('usage: c2c ');
    expect(await place.said(['help', 'send'])).toBe(await place.said(['send', '-h']));
  });

  it('behind the words of a message is told that it is no option, and the message is not sent', async () => {
    const place = await new Brokerage().registered(['alice', 'bob']);
    const sent = await place.error(['send', 'bob', 'try', '--help'], { session: 's-alice' });
    expect(sent).toContain("Unknown option '--help'; usage: c2c send ");
    expect(place.inbox('bob')).toEqual([]);
  });
});

describe('who errs', () => {
  it('over a room is told so, and leaves none that there is not', async () => {
    const place = await new Brokerage().registered(['alice']);
    expect(await place.error(['rooms', 'leave', 'nowhere'], { session: 's-alice' })).toContain(
      'there is no room nowhere',
    );
  });

  it('over an agent of Parley is told how to answer it', async () => {
    const place = await new Brokerage().registered(['alice']);
    await place.parley(['init', 'ada']);
    expect(await place.error(['send', 'ada', 'yes'], { session: 's-alice' })).toContain(
      'parley send @ada "…" --as alice',
    );
    expect((await place.parley(['inbox', '--as', 'alice%c2c'])).err).toContain('leave out what begins with %');
  });

  it('over the end of a quiet time is told how to write it', async () => {
    const place = await new Brokerage().registered(['bob']);
    const bob = { session: 's-bob' };
    expect(await place.error(['dnd', 'on', '--until', 'soon'], bob)).toContain('write 30m, 2h, 07:30 or an ISO time');
    expect(await place.said(['dnd', 'on', '--until', '2h'], bob)).toStartWith('not to be disturbed until 2');
  });
});

it('c2c list says of a session that never gave a sign that it was never seen', async () => {
  const place = new Brokerage();
  place.plant('registry.json', [{ session_id: 's-old', alias: 'old' }]);
  expect(await place.said(['list'])).toMatch(/^old +unknown +never seen\n$/);
});

it('c2c --version begins with a number, and says that it is Parley', async () => {
  expect(await new Brokerage().said(['--version'])).toMatch(/^\d+\.\d+\.\d+\S* \(c2c by Parley\)\n$/);
});
