import { command } from '../../core/command.ts';
import { ago, clockTime, countFrom, pastFrom } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { listEvents } from '../../core/history/events.ts';
import type { EventView } from '../../core/history/events.ts';
import { why } from '../../core/history/why.ts';
import { findMessage } from '../../core/mail/workspace.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { Policy, policyWords } from '../../core/attention/attention.ts';
import { shortId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { HistoryRow } from '../../core/ports/journal.ts';
import { agentName, channelName } from '../context.ts';
import type { Context } from '../context.ts';
import { gist, headline } from '../words.ts';
import { tellSessionHistory } from './control.ts';

const POLICIES = Policy.inner.options;

const eventsCommand = command({
  usage: 'events',
  about:
    'Lists every message that you may see, quiet ones too, with the attention decision, its state, and who claimed it. It changes nothing.',
  options: {
    stream: { type: 'string', value: '#channel', help: 'only this channel' },
    policy: { type: 'string', value: 'policy', help: `only ${POLICIES.join(', ')}` },
    since: { type: 'string', value: 'when', help: 'only after this: 2h, 1d or an ISO time' },
    limit: { type: 'string', value: 'n', help: 'how many (default 20, at most 200)' },
    all: { type: 'boolean', help: 'also list each message that is addressed to nobody' },
    cursor: { type: 'string', value: 'text', help: 'the next page: the text that the page before ends with' },
  },
  examples: ['parley events', 'parley events --stream "#deploy" --since 1d', 'parley events --policy must_respond'],
  async run(context: Context, values) {
    const who = await context.who('read');
    const { stream, cursor } = values;
    const { events, cursor: next } = await listEvents([who], {
      limit: Math.min(countFrom(values.limit, 20), 200),
      ...(stream !== undefined && { stream: channelName(stream) }),
      ...(values.policy !== undefined && { policy: policyFrom(values.policy) }),
      ...(values.since !== undefined && { since: pastFrom(values.since, context.workspace.now()) }),
      ...(cursor !== undefined && { cursor }),
    });
    if (context.json) return context.sayJson({ events, cursor: next });
    if (events.length === 0) return context.say('nothing found');
    const [folded, told] = values.all
      ? [[], events]
      : [events.filter(isAmbient), events.filter((one) => !isAmbient(one))];
    for (const event of told) context.say(line(context, event));
    for (const [place, some] of Map.groupBy(folded, ({ to }) => to)) context.say(fold(context, place, some));
    if (folded.length > 0)
      context.note('list them: parley events --all   assign one to an agent: parley raise <id> <@agent>');
    if (next !== null) context.note(`next page: --cursor ${next}`);
  },
});

function isAmbient({ attention, claim }: EventView): boolean {
  return attention.directedness === 'ambient' && claim === null;
}

/** Messages that are addressed to nobody, as one line, and why they were not shown. */
function fold({ workspace, paint }: Context, place: string, events: readonly EventView[]): string {
  const reasons = [...new Set(events.map(({ attention }) => attention.reason))];
  const [last] = events;
  return `${paint.bold(String(events.length))} in ${lineForModel(place, 64)} addressed to nobody (${reasons.join(', ')}), the last ${last ? `${shortId(last.id)} ${ago(last.at, workspace.now())}` : ''}`;
}

function line(
  { workspace, paint }: Context,
  { id, from, to, at, attention, body, disposition, proven, signal, claim, refused }: EventView,
): string {
  const marks = [
    policyWords(attention.policy),
    attention.directedness === 'ambient' ? attention.reason : '',
    signal ?? '',
    proven,
    disposition ?? '',
    refused > 0 ? `${refused} ${refused === 1 ? 'reply' : 'replies'} refused` : '',
    claim ? `claimed by @${claim.holder} until ${clockTime(claim.until)}` : '',
  ].filter(Boolean);
  const who = `${lineForModel(from, 64)} → ${lineForModel(to, 64)}`;
  const when = paint.dim(ago(at, workspace.now()));
  const about = body === undefined ? '' : `\n  ${gist(body) || '(empty)'}`;
  return `${paint.bold(shortId(id))}  ${who}  ${when}  ${marks.join(' · ')}${about}`;
}

function policyFrom(text: string): Policy {
  const policy = POLICIES.find((one) => one === text.replaceAll(/[\s-]/g, '_'));
  if (policy) return policy;
  throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is not a policy; use ${POLICIES.join(', ')}`);
}

/** The beginning of an id names the message as well, and is easier to read. */
const UUID = /\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

const whyCommand = command({
  usage: 'why <id>',
  about:
    'Lists who did what with a message, when, and why: the attention decision for each recipient, claims, reactions, refused replies, ' +
    'escalations and how it ended. It never shows the text of the message.',
  words: [1, 1],
  examples: ['parley why 1f2e3d4c', 'parley why 1f2e3d4c --json'],
  async run(context: Context, _values, [prefix = '']) {
    const { home, id } = await findMessage(context.workspace, prefix);
    await home.mailboxes.heal();
    const lines = await why(home, id);
    if (context.json) return context.sayJson({ id, home: home.label, lines });
    const rows = lines.map(({ at, who, what, why: because }) => ({ at, who: named(who), what, because }));
    const width = Math.max(...rows.map(({ who }) => who.length));
    for (const { at, who, what, because } of rows) {
      const reason = because === '' ? '' : context.paint.dim(`  ${lineForModel(because.replaceAll(UUID, '$1'))}`);
      context.say(`${at}  ${context.paint.bold(who.padEnd(width))}  ${lineForModel(what)}${reason}`);
    }
  },
});

/** What Parley itself decided. */
function named(who: string): string {
  return who === 'parley' ? 'Parley' : `@${lineForModel(who, 128)}`;
}

const historyCommand = command({
  usage: 'history [session]',
  about:
    'Lists messages of every home, newest first. Old bodies are deleted after a while (see keepBodies in `parley config`).\n' +
    'With the name of a session (`parley sessions`): its prompts and answers, oldest first. Mail of an agent: --with.',
  options: {
    limit: { type: 'string', value: 'n', help: 'how many (default 20)' },
    before: { type: 'string', value: 'n', help: 'the next page: only messages before this number' },
    with: { type: 'string', value: 'agent', help: 'only messages from or to this agent' },
    thread: { type: 'string', value: 'id', help: 'only the thread of this message' },
  },
  words: [0, 1],
  examples: ['parley history', 'parley history --with codex-1 --limit 50', 'parley history api'],
  async run(context: Context, values, [session]) {
    const limit = countFrom(values.limit, 20);
    if (session !== undefined) {
      if (values.with ?? values.thread ?? values.before)
        throw new Refusal('invalid_request', '--with, --thread and --before are for mail; leave the session out');
      return tellSessionHistory(context, session, limit);
    }
    const agent = values.with === undefined ? undefined : agentName(values.with);
    const before = values.before === undefined ? undefined : countFrom(values.before, 1);
    const thread = values.thread === undefined ? undefined : await findMessage(context.workspace, values.thread);
    const homes = thread ? [thread.home] : context.workspace.homes;
    await printRows(
      context,
      homes,
      (home) => home.journal.history({ limit, before, agent, thread: thread?.id }),
      limit,
    );
  },
});

const searchCommand = command({
  usage: 'search <words …>',
  about:
    'Finds messages with all these words, in every home, newest first. If there is none, words that begin so count too.',
  options: {
    limit: { type: 'string', value: 'n', help: 'how many (default 20)' },
    before: { type: 'string', value: 'n', help: 'the next page: only messages before this number' },
    with: { type: 'string', value: 'agent', help: 'only messages from or to this agent' },
  },
  words: [1, Infinity],
  examples: ['parley search rollback migration', 'parley search deploy --with codex-1'],
  async run(context: Context, values, words) {
    const limit = countFrom(values.limit, 20);
    const agent = values.with === undefined ? undefined : agentName(values.with);
    const before = values.before === undefined ? undefined : countFrom(values.before, 1);
    const page = { limit, before, agent };
    await printRows(
      context,
      context.workspace.homes,
      (home) => home.journal.search(words.join(' '), page, progress(context)),
      limit,
    );
  },
});

/** The first search after much mail has to index it: say so. */
function progress(context: { note(text: string): void }): (left: number) => void {
  return (left) => {
    if (left > 10_000) context.note(`indexing: ${left} messages left …`);
  };
}

/** Prints rows of several homes as one list, newest first; every row says where it comes from. */
async function printRows(
  context: Context,
  homes: readonly Home[],
  ask: (home: Home) => Promise<HistoryRow[]>,
  limit: number,
): Promise<void> {
  const found: (HistoryRow & { home: string })[] = [];
  for (const home of homes) for (const row of await ask(home)) found.push({ ...row, home: home.label });
  const rows = found.sort((a, b) => (a.message.ts < b.message.ts ? 1 : -1)).slice(0, limit);
  if (context.json) return context.sayJson(rows.map(({ message, ...rest }) => ({ ...message, ...rest })));
  if (rows.length === 0) return context.say('nothing found');
  const several = homes.length > 1;
  for (const row of rows) {
    const where = several ? context.paint.dim(` %${row.home}`) : '';
    context.say(
      `${headline(row, context.workspace.now(), context.paint)}${where}\n  ${gist(row.message.body) || (row.pruned ? '(the body is no longer kept)' : '(empty)')}`,
    );
  }
  if (rows.length === limit && !several)
    context.note(`older messages: --before ${Math.min(...rows.map((row) => row.seq))}`);
}

export const commands = {
  events: eventsCommand,
  why: whyCommand,
  history: historyCommand,
  search: searchCommand,
};
