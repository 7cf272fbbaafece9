import { lineForModel } from '../../../delivery/gate.ts';
import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import type { Archived } from '../../../protocols/c2c/archive.ts';
import { countFrom, durationFrom } from '../../input.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { minuteOf } from './times.ts';

const LIMIT = 50;
const KEPT = '30d';

export default c2cCommand({
  usage: 'history [--limit <n>] [--json] [--session-id <id>] | history --prune [--older-than 30d] [--dry-run]',
  options: {
    limit: { ...TEXT, short: 'l' },
    json: { ...FLAG, short: 'j' },
    'session-id': { ...TEXT, short: 's' },
    'broker-root': TEXT,
    prune: FLAG,
    'older-than': TEXT,
    'dry-run': FLAG,
  },
  words: [0, 0],
  async run(given, values) {
    const c2c = given.at(values['broker-root']);
    const json = values.json ?? false;
    if (values.prune) return prune(c2c, values['older-than'] ?? KEPT, values['dry-run'] ?? false, json);
    if (values['older-than'] !== undefined || values['dry-run']) {
      throw new Refusal('invalid_request', '--older-than and --dry-run go with --prune');
    }
    const session = values['session-id'] === undefined ? c2c.session() : readSessionId(values['session-id']);
    const newestFirst = (await c2c.broker.archive(session, countFrom(values.limit, LIMIT))).toReversed();
    if (json) return c2c.sayJson(newestFirst.map(told));
    if (newestFirst.length === 0) return c2c.say('(nothing was taken yet)');
    c2c.say(newestFirst.map(line).join('\n'));
  },
});

/** An archive is for looking back. What happened, with its evidence, stands in the ledger, which has its own retention. spec: c2c#archive */
async function prune(c2c: C2c, span: string, isDry: boolean, json: boolean): Promise<void> {
  const before = (Date.now() - durationFrom(span)) / 1000;
  const count = await c2c.broker.pruneArchives(before, isDry ? 'count' : 'remove');
  const told = { pruned: isDry ? 0 : count, would_prune: isDry ? count : 0, before, dry_run: isDry };
  if (json) return c2c.sayJson(told);
  const what = `${count} ${count === 1 ? 'message' : 'messages'} taken before ${new Date(before * 1000).toISOString()}`;
  c2c.say(isDry ? `would remove ${what}` : `removed ${what}`);
}

function told({ entry, drainedAt }: Archived) {
  const { from_alias, to_alias, content, ts, message_id } = entry;
  return { drained_at: drainedAt, from_alias, to_alias, content, ts, message_id };
}

function line({ entry, drainedAt }: Archived): string {
  return `[${minuteOf(entry.ts || drainedAt)}] <${lineForModel(entry.from_alias, 64)}> ${lineForModel(entry.content, 2000)}`;
}
