import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { command } from '../../core/command.ts';
import { lineForModel, visibleText } from '../../core/gate.ts';
import { ago, clockTime, countFrom } from '../../core/time.ts';
import { Refusal } from '../../core/refusal.ts';
import { SESSION_CLIENTS } from '../../clients/clients.ts';
import { ControlClient, requestControl } from '../../protocols/control/client.ts';
import type { Answered } from '../../protocols/control/client.ts';
import { ControlFile, newSessionName, splitName } from '../../protocols/control/config.ts';
import { ERRORS } from '../../protocols/control/phrases.ts';
import { nearest } from '../../core/nearest.ts';
import { shellWord } from '../../clients/shell-word.ts';
import { userHome } from '../../platform/env.ts';
import type { Context } from '../context.ts';

/** More names are not listed in an error. */
const SHOWN_NAMES = 10;

export const FROM = {
  type: 'string',
  value: 'name',
  help: 'who asks, as the history shows it (default: your agent)',
} as const;
export const RAW = {
  type: 'boolean',
  help: 'a command of the client, such as /compact, if allow_commands is set',
} as const;

const promptCommand = command({
  usage: 'prompt <session> <text … | ->',
  about:
    'Puts a prompt into a running client and does not wait for the answer. It waits its turn in a queue that `parley queue` shows.',
  options: { from: FROM, raw: RAW },
  words: [2, Infinity],
  examples: ['parley prompt api "run the full test suite"', 'parley queue', 'parley history api'],
  async run(context: Context, values, [session = '', ...words]) {
    const text = await promptFrom(words);
    const from = fromOf(context, values.from);
    const sent = await requestSession(context, { cmd: 'send', session, text, from, raw: values.raw });
    if (context.json) return context.sayJson(sent);
    const because = typeof sent['because'] === 'string' ? ` (${lineForModel(sent['because'])})` : '';
    context.say(`${String(sent['status'])} as ${String(sent['message_id'])}${because}`);
  },
});

interface Listed {
  name: string;
  host: string;
  status: string;
  cwd: string;
  last_activity: number;
  waiting_for?: string;
  client: string;
}

const sessionsCommand = command({
  usage: 'sessions',
  about:
    'Which sessions are configured for control, and what each does now: active, idle or stopped. `parley session` makes and removes them.',
  options: { follow: { type: 'boolean', help: 'go on and say each change, until Ctrl-C' } },
  examples: ['parley sessions', 'parley sessions --follow --json'],
  async run(context: Context, values) {
    if (values.follow) return follow(context);
    const { sessions } = await requestControl(context.env, { cmd: 'sessions' });
    if (context.json) return context.sayJson(sessions);
    const listed = sessions as Listed[];
    if (listed.length === 0) return context.say('no session yet; make one: parley session add <name> [folder]');
    const width = Math.max(...listed.map(({ name }) => name.length));
    for (const one of listed) {
      const { name, status, cwd, last_activity: last, waiting_for: waits } = one;
      const when = last === 0 ? '' : context.paint.dim(`  ${ago(new Date(last * 1000).toISOString(), Date.now())}`);
      const what = waits === undefined ? status : `${status}, waits for a person: ${lineForModel(waits)}`;
      context.say(
        `${context.paint.bold(lineForModel(name).padEnd(width))}  ${what.padEnd(7)}  ${lineForModel(cwd)}${when}`,
      );
    }
  },
});

async function follow(context: Context): Promise<void> {
  const client = await ControlClient.open(context.env);
  client.write({ cmd: 'subscribe' });
  for (let event = await client.next(); event; event = await client.next()) {
    if (event['ok'] === false) throw new Refusal('unreachable', String(event['error']));
    if (context.json) process.stdout.write(`${JSON.stringify(event)}\n`);
    else if (event['event'] === 'status') {
      const { waiting_for: what } = event;
      const waits = typeof what === 'string' ? `, waits for a person: ${what}` : '';
      context.say(
        `${clockTime(Date.now())}  ${lineForModel(`${String(event['session'])}  ${String(event['status'])}${waits}`)}`,
      );
    }
  }
  throw new Refusal('unreachable', 'the control server has ended');
}

const sessionCommand = command({
  usage: 'session add <name> [folder]  |  session remove <name>  |  session list',
  about:
    'Makes and removes sessions for control, in ~/.ccc.json. A server that runs sees it at once. A session is started at its first prompt.\n' +
    'remove keeps the history, and does not end a client that runs (`ccc kill` does).',
  options: {
    client: { type: 'string', value: 'client', help: `which client: ${SESSION_CLIENTS.join(', ')} (default claude)` },
    flag: { type: 'string', multiple: true, value: 'word', help: 'a word of its command line; as --flag=--word' },
  },
  words: [1, 3],
  examples: [
    'parley session add api ~/Projects/api',
    'parley session add fixer --client codex',
    'parley session add api --flag=--permission-mode --flag=acceptEdits',
    'parley session list',
  ],
  async run(context: Context, values, [verb, name, folder]) {
    const file = ControlFile.of(context.env);
    if (verb === 'list' && name === undefined) return tellConfigured(context, file);
    if (name === undefined || (verb !== 'add' && (verb !== 'remove' || folder !== undefined)))
      throw new Refusal('invalid_request', 'usage: parley session <add <name> [folder] | remove <name> | list>');
    if (verb === 'remove') {
      if (!file.session(name)) throw unknownSession(context, name, new Refusal('not_found', ERRORS.notFound));
      file.remove(name);
      if (context.json) return context.sayJson({ removed: name });
      return context.say(`removed ${name}; its history stays: parley history ${shellWord(name)}`);
    }
    const entry = addSession(context, file, name, folder, values);
    if (context.json) return context.sayJson({ name, ...entry });
    context.say(`added ${name} (${entry.path})\nNext: parley ask ${shellWord(name)} <text>`);
  },
});

/** What is in the file. */
export function tellConfigured(context: Context, file: ControlFile): void {
  const sessions = file.sessions();
  if (context.json)
    return context.sayJson(
      sessions.map(([name, { path, host, client }]) => ({ name, path, host: host || splitName(name).host, client })),
    );
  if (sessions.length === 0) return context.say('no session yet; make one: parley session add <name> [folder]');
  const width = Math.max(...sessions.map(([name]) => name.length));
  const clientWidth = Math.max(...sessions.map(([, { client }]) => client.length));
  for (const [name, { path, client }] of sessions)
    context.say(
      `${context.paint.bold(lineForModel(name).padEnd(width))}  ${lineForModel(client).padEnd(clientWidth)}  ${lineForModel(path)}`,
    );
}

/** Makes a session in a folder that is there; without one in that of the projects, else in the current one. */
export function addSession(
  context: Context,
  file: ControlFile,
  text: string,
  folder: string | undefined,
  { client, flag }: { client?: string; flag?: readonly string[] } = {},
): { path: string } {
  const name = newSessionName(text);
  const { host, base } = splitName(name);
  if (client !== undefined && !SESSION_CLIENTS.includes(client))
    throw new Refusal('invalid_request', `--client: only these can be given prompts: ${SESSION_CLIENTS.join(', ')}`);
  const { projects_dir: projects, hosts } = file.read();
  const far = hosts[host]?.projects_dir || '~';
  const path = host === 'local' ? localFolder(context, folder, projects, base) : (folder ?? `${far}/${base}`);
  file.add(name, { path, ...(client && { client }), ...(flag && { flags: flag }) });
  return { path };
}

function localFolder(context: Context, folder: string | undefined, projects: string, base: string): string {
  const home = userHome(context.env);
  const below = projects === '' ? '.' : `${projects.replace(/^~(?=\/|$)/, home)}/${base}`;
  const path = resolve(context.cwd, folder?.replace(/^~(?=\/|$)/, home) ?? below);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return path;
  throw new Refusal('not_found', `there is no folder ${path}; make it first, or name another`);
}

export interface Queued {
  id: number;
  session: string;
  state: string;
  ts: number;
  text: string;
  because?: string;
}

const queueCommand = command({
  usage: 'queue [session]',
  about:
    'The prompts that are on their way into sessions: queued, submitting, or submitted and not yet answered. One that was not typed yet can be taken back.',
  options: { cancel: { type: 'string', value: 'id', help: 'take back this prompt' } },
  words: [0, 1],
  examples: ['parley queue', 'parley queue api', 'parley queue --cancel 285'],
  async run(context: Context, values, [session]) {
    if (values.cancel !== undefined) {
      const id = countFrom(values.cancel, 0);
      await requestControl(context.env, { cmd: 'cancel', message_id: id });
      return context.json ? context.sayJson({ cancelled: id }) : context.say(`taken back: ${id}`);
    }
    const { queue } = await requestSession(context, { cmd: 'queue', session });
    if (context.json) return context.sayJson(queue);
    const queued = queue as Queued[];
    if (queued.length === 0) return context.say('nothing waits');
    for (const { id, session: name, state, ts, text, because } of queued) {
      const when = context.paint.dim(ago(new Date(ts * 1000).toISOString(), Date.now()));
      const why = because === undefined ? '' : ` (${lineForModel(because)})`;
      context.say(
        `${context.paint.bold(String(id))}  ${lineForModel(name)}  ${state}${why}  ${when}\n  ${lineForModel(text)}`,
      );
    }
  },
});

interface Asked {
  question: string;
  header: string;
  options: { label: string; description?: string }[];
  multi_select: boolean;
  answered: boolean;
}

const questionsCommand = command({
  usage: 'questions <session>',
  about:
    'What a session asks its user now. Numbers count from 0, as `parley answer` takes them. Permissions are shown, too; they are answered from here only if `control_may_approve` is true in ~/.ccc.json.',
  words: [1, 1],
  examples: ['parley questions api'],
  async run(context: Context, _values, [session]) {
    const answer = await requestSession(context, { cmd: 'questions', session });
    const { sessions } = await requestControl(context.env, { cmd: 'sessions' });
    const waitingFor = (sessions as Listed[]).find(({ name }) => name === session)?.waiting_for;
    if (context.json)
      return context.sayJson({ ...answer, ...(waitingFor !== undefined && { waiting_for: waitingFor }) });
    const { questions = [] } = (answer['questions'] ?? {}) as { questions?: Asked[] };
    if (questions.length === 0 && waitingFor !== undefined)
      return context.say(
        `${session} waits for a person: ${lineForModel(waitingFor)}\nsee it: parley screenshot ${shellWord(session ?? '')}`,
      );
    if (questions.length === 0) return context.say('no question is open');
    for (const [at, { question, header, options, multi_select: isMany, answered }] of questions.entries()) {
      const more = [isMany && 'several options', answered && 'answered'].filter(Boolean).join(', ');
      const about = more && `  ${context.paint.dim(more)}`;
      context.say(`${context.paint.bold(String(at))}  ${lineForModel(header)}${about}`);
      context.say(`  ${visibleText(question).replaceAll('\n', '\n  ')}`);
      for (const [option, { label, description }] of options.entries())
        context.say(`  ${option}  ${lineForModel(label)}${description ? `: ${lineForModel(description)}` : ''}`);
    }
  },
});

const answerCommand = command({
  usage: 'answer <session> <question> [<option> …]',
  about:
    'Answers a question of a session by options, or by words of your own. Questions and options are counted from 0. Several questions of one dialog are entered when the last of them is answered.',
  options: { text: { type: 'string', value: 'words', help: 'an answer in words, instead of an option' } },
  words: [2, 22],
  examples: ['parley answer api 0 1', 'parley answer api 1 0 2', 'parley answer api 0 --text "neither of them"'],
  async run(context: Context, { text }, [session, question, ...options]) {
    const indexes = options.map((option) => indexFrom(option));
    const answer = await requestSession(context, {
      cmd: 'answer',
      session,
      question_index: indexFrom(question),
      ...(indexes.length === 1 ? { option_index: indexes[0] } : indexes.length > 1 && { option_indexes: indexes }),
      ...(text !== undefined && { text }),
    });
    if (context.json) return context.sayJson(answer);
    context.say(visibleText(String(answer['response'])));
  },
});

interface Said {
  id: number;
  ts: number;
  from: string;
  text: string;
  agent?: string;
  username?: string;
  status?: string;
  reply_to?: number;
}

/** What was said in a session, oldest first. */
export async function tellSessionHistory(context: Context, session: string, limit: number): Promise<void> {
  const { messages } = await requestSession(context, { cmd: 'history', session, limit, deleted: true });
  if (context.json) return context.sayJson(messages);
  const said = messages as Said[];
  if (said.length === 0) return context.say('nothing was said yet');
  for (const { id, ts, from, text, agent, username, status, reply_to: to } of said) {
    const who = from === 'api' ? `[${agent ?? 'api'}]` : from === 'human' ? (username ?? 'a person') : from;
    const when = context.paint.dim(ago(new Date(ts * 1000).toISOString(), Date.now()));
    const end = status === undefined ? '' : `  ${lineForModel(status)}`;
    const answers = to === undefined ? '' : ` ↳ ${to}`;
    context.say(
      `${context.paint.bold(String(id))}  ${lineForModel(who)}${answers}  ${when}${end}\n  ${visibleText(text).replaceAll('\n', '\n  ')}`,
    );
  }
}

/** A request for a session. If there is none of that name, the error names the nearest, or those that there are. */
export async function requestSession(context: Context, fields: Record<string, unknown>): Promise<Answered> {
  try {
    return await requestControl(context.env, fields);
  } catch (error) {
    throw unknownSession(context, String(fields['session']), error);
  }
}

/** The server's words for a session that it does not know, with its name and what there is; any other error as it is. */
export function unknownSession({ env }: Context, name: string, error: unknown): unknown {
  if (!(error instanceof Refusal) || error.message !== ERRORS.notFound) return error;
  const known = ControlFile.of(env)
    .sessions()
    .map(([one]) => one);
  const [near] = nearest(name, known);
  const some = known.length > SHOWN_NAMES ? [...known.slice(0, SHOWN_NAMES), '…'] : known;
  const there = known.length === 0 ? 'make it: parley session add <name> [folder]' : `there is ${some.join(', ')}`;
  return new Refusal(
    error.code,
    `${ERRORS.notFound}: ${lineForModel(name)}; ${near === undefined ? there : `did you mean ${near}?`}`,
  );
}

function indexFrom(text = ''): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new Refusal('invalid_request', `"${text.slice(0, 40)}" is no index; count from 0`);
}

export function fromOf({ settings }: Context, from: string | undefined): string {
  return from ?? settings.agent ?? 'parley';
}

/** The words, or what comes on stdin. */
export async function promptFrom(words: readonly string[]): Promise<string> {
  if (words.length !== 1 || words[0] !== '-') return words.join(' ');
  return (await Bun.stdin.text()).replace(/\n$/, '');
}

export const commands = {
  prompt: promptCommand,
  sessions: sessionsCommand,
  session: sessionCommand,
  queue: queueCommand,
  questions: questionsCommand,
  answer: answerCommand,
};
