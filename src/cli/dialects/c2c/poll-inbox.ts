import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import { isSlow, writeAll } from '../../terminal.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { bringIntoOrder, isSurelyEmpty } from './emptiness.ts';

/** Takes everything that waits. Most polls find nothing: they open no ledger, and read nothing that they do not need for that. */
export default c2cCommand({
  usage: 'poll-inbox [--json] [--session-id <id>] [--peek]',
  options: {
    json: { ...FLAG, short: 'j' },
    'session-id': { ...TEXT, short: 's' },
    peek: { ...FLAG, short: 'p' },
    'broker-root': TEXT,
    // Asked for by scripts of the original. Here every poll works on the files, and none waits for a server.
    'file-fallback': FLAG,
    timeout: TEXT,
  },
  words: [0, 0],
  async run(given, values) {
    const c2c = given.at(values['broker-root']);
    const session = values['session-id'] === undefined ? c2c.session() : readSessionId(values['session-id']);
    const json = values.json ?? false;
    if (values.peek) return (await import('./peek.ts')).peek(c2c, session, json);
    const taken = isSurelyEmpty(c2c.root, session) ? 0 : await take(c2c, session, json);
    if (taken === 0) sayNothingWaits(c2c, json);
  },
});

async function take(c2c: C2c, session: string, json: boolean): Promise<number> {
  const [{ takeWaiting }, { renderTaken }] = await Promise.all([
    import('../../../protocols/c2c/mail.ts'),
    import('./entries.ts'),
  ]);
  const name = await c2c.mailbox(session);
  await bringIntoOrder(c2c.home);
  const by = { by: 'c2c poll-inbox', drained_by: 'cli_poll', agent: name, session, pid: process.pid };
  const taken = await takeWaiting({ name, home: c2c.home }, by, (delivered) => {
    const text = renderTaken(name, delivered, json);
    return { show: () => writeAll(1, text), slow: isSlow(1, text) };
  });
  await c2c.home.directory.seen(name);
  return taken.length;
}

function sayNothingWaits(c2c: C2c, json: boolean): void {
  c2c.say(json ? '[]' : '(no messages)');
}
