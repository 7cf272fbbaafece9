import { existsSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { command } from '../../core/command.ts';
import { spanText } from '../../core/time.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { isMissing } from '../../core/disk.ts';
import type { Journal, Trace } from '../../core/ports/journal.ts';
import type { Context } from '../context.ts';
import { cutBy } from '../retention.ts';

/** A session that nobody has begun or resumed for so long is over. */
const SESSION_MS = 30 * 24 * 60 * 60 * 1000;

const pruneCommand = command({
  usage: 'prune',
  about:
    'Deletes, in every home, the bodies of messages that were settled longer ago than keepBodies, and the traces of messages that were ' +
    'settled longer ago than keepFacts (see `parley config`). It never deletes waiting mail.',
  options: {
    'dry-run': { type: 'boolean', help: 'only say what would be deleted' },
    asides: { type: 'boolean', help: 'also delete files that were set aside because they are not messages' },
  },
  examples: ['parley prune --dry-run', 'parley prune', 'PARLEY_KEEP_BODIES=0 parley prune'],
  async run(context: Context, values) {
    const dry = values['dry-run'] ?? false;
    const { keepBodies, keepFacts } = context.settings;
    const now = context.workspace.now();
    const cut = cutBy(context);
    const done = [];
    for (const home of context.workspace.homes.filter(({ root }) => existsSync(root))) {
      const { bodies, messages } = await (dry ? prunable(home, cut) : home.journal.prune(cut));
      const sessions = removed(oldSessions(home, now - SESSION_MS), dry);
      const asides = values.asides ? removed(await home.mailboxes.asides(), dry) : 0;
      done.push({ home: home.label, bodies, messages, sessions, asides });
    }
    if (context.json)
      return context.sayJson({
        dryRun: dry,
        keepBodies: spanText(keepBodies),
        keepFacts: spanText(keepFacts),
        homes: done,
      });
    if (done.length === 0) context.say('nothing to delete: there is no home yet');
    for (const home of done) say(context, home, dry, done.length > 1);
  },
});

function say(
  context: Context,
  done: { home: string; bodies: number; messages: number; sessions: number; asides: number },
  dry: boolean,
  several: boolean,
): void {
  const { keepBodies, keepFacts } = context.settings;
  const parts = [
    `${count(done.bodies, 'body', 'bodies')} of messages that ended over ${spanText(keepBodies)} ago`,
    `${count(done.messages, 'whole message', 'whole messages')} that ended over ${spanText(keepFacts)} ago`,
    done.sessions > 0 ? count(done.sessions, 'old session', 'old sessions') : '',
    done.asides > 0 ? `${count(done.asides, 'file', 'files')} that had been set aside` : '',
  ].filter(Boolean);
  if (keepBodies === null) parts.shift();
  if (keepFacts === null) parts.splice(keepBodies === null ? 0 : 1, 1);
  const where = several ? ` in home ${done.home}` : '';
  context.say(
    parts.length === 0
      ? `everything is kept for ever${where}`
      : `${dry ? 'would delete' : 'deleted'} ${parts.join(', ')}${where}`,
  );
}

function count(n: number, one: string, many: string): string {
  return `${n} ${n === 1 ? one : many}`;
}

/** What binds a client's session to an agent, where that session has not been seen for long. */
function oldSessions(home: Home, before: number): string[] {
  const folder = `${home.root}/sessions`;
  try {
    // What begins with a dot belongs to the hook itself.
    const paths = readdirSync(folder)
      .filter((name) => !name.startsWith('.'))
      .map((name) => `${folder}/${name}`);
    return paths.filter((path) => (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < before);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function removed(paths: string[], dry: boolean): number {
  if (!dry) for (const path of paths) rmSync(path, { recursive: true, force: true });
  return paths.length;
}

/** What ended before these times is forgotten (ms; null keeps). */
export type Cut = Parameters<Journal['prune']>[0];

const PAGE = 200;

/** What pruning would take, without taking it: by reading the whole history, page by page. */
async function prunable(home: Home, cut: Cut): Promise<{ bodies: number; messages: number }> {
  const found = { bodies: 0, messages: 0 };
  for (let before: number | undefined; ;) {
    const rows = await home.journal.history({ limit: PAGE, before });
    for (const { message } of rows) {
      const trace = await home.journal.trace(message.id);
      const ended = Math.max(endOf(trace), await endOfObligations(home, trace));
      if (message.body !== '' && cut.bodies !== null && ended < cut.bodies) found.bodies += 1;
      if (cut.facts !== null && ended < cut.facts) found.messages += 1;
    }
    if (rows.length < PAGE) return found;
    before = rows.at(-1)?.seq;
  }
}

/** When the last copy ended; never, if one is still open. */
function endOf(trace: Trace | null): number {
  if (!trace) return Infinity;
  const sent = Date.parse(trace.message.ts);
  const ends = trace.copies.map((copy) => {
    if (copy.state === 'stored' || copy.state === 'held') return Infinity;
    return copy.settledAt ? Date.parse(copy.settledAt) : sent;
  });
  return ends.length > 0 ? Math.max(...ends) : sent;
}

/** When the last obligation for it ended; never, while one is open or may still be entered. */
async function endOfObligations(home: Home, trace: Trace | null): Promise<number> {
  let last = -Infinity;
  for (const { mailbox, id, attention } of trace?.copies ?? []) {
    if (attention.policy !== 'must_respond' || !trace?.message.parley?.obligation) continue;
    const obligation = await home.journal.obligation(mailbox, id);
    if (!obligation?.ended) return Infinity;
    last = Math.max(last, obligation.ended.at);
  }
  return last;
}

export const commands = {
  prune: pruneCommand,
};
