import { existsSync, readFileSync, rmSync } from 'node:fs';
import { INBOUND_KEY } from '../../clients/claude/settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import { NotEditable } from '../../clients/settings/text-edit.ts';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { isSure, refuseUnlessUser, whyNotUser } from '../../platform/authority.ts';
import { parleyHome } from '../../platform/env.ts';
import { isTerminal, wrapped } from '../../platform/terminal.ts';
import { changeTable, readTable } from '../../platform/trust.ts';
import type { Context } from '../context.ts';
import { asksBeforeReply } from './allow.ts';

/**
 * What widens a client, so that only its user can decide it. `reply`: its model answers mail without a dialog. `inbound`: messages come in
 * without one. Each is asked for once, and the answer is kept, a no too. Options change it: `--allow`, `--inbound`.
 */
const TOPICS = ['reply', 'inbound'] as const;
export type Topic = (typeof TOPICS)[number];

/** `run`: messages come in without a dialog in sessions of `parley run`. This answer never changes the settings of the client. */
type Answered = Topic | 'run';

/** `ask`: the client goes on asking. */
export type Consent = 'allow' | 'ask';

/** What the user answered for a client; undefined if nobody asked yet. What cannot be read was never answered. */
function consentTo(env: Env, client: string, topic: Answered): Consent | undefined {
  const answers = readTable(fileOf(env))[client];
  const answer = typeof answers === 'object' && answers !== null ? (answers as Record<string, unknown>)[topic] : null;
  return answer === 'allow' || answer === 'ask' ? answer : undefined;
}

export function keepConsent(env: Env, client: string, topic: Answered, consent: Consent): void {
  changeTable(fileOf(env), (table) => ({ ...table, [client]: { ...(table[client] as object), [topic]: consent } }));
}

/** `--inbound` is for all sessions: it takes the place of what `parley run` was answered. */
export function forgetRunAnswer(env: Env, client: string): void {
  changeTable(fileOf(env), (table) => {
    const { run: _replaced, ...rest } = (table[client] ?? {}) as Record<string, unknown>;
    return { ...table, [client]: rest };
  });
}

/** A client without Parley has no answers: the next installation asks. */
export function forgetConsents(env: Env, client: string): void {
  if (client in readTable(fileOf(env))) changeTable(fileOf(env), ({ [client]: _gone, ...rest }) => rest);
}

export function forgetAllConsents(env: Env): void {
  rmSync(fileOf(env), { force: true });
}

function fileOf(env: Env): string {
  return `${parleyHome(env)}/consents.json`;
}

/** What `--inbound` says. Only the user can let messages in; to go back to asking is open to all. */
export function inboundFrom(word: string | undefined, env: Env): Consent | null {
  if (word === undefined) return null;
  if (word !== 'allow' && word !== 'ask') throw new Refusal('invalid_request', '--inbound is allow or ask');
  if (word === 'allow') refuseUnlessUser(env, 'let messages in');
  return word;
}

/** One thing that the user may allow, and for which clients. */
export interface ConsentQuestion {
  topic: Topic;
  clients: readonly ClientSettings[];
}

/** What is not decided for these clients: no answer was no, and their settings do not have it. */
export function openQuestions(env: Env, target: InstallTarget, clients: readonly ClientSettings[]): ConsentQuestion[] {
  const isOpen = { reply: asksBeforeReply, inbound: asksAboutMessages };
  return TOPICS.map((topic) => ({
    topic,
    clients: clients.filter((client) => consentTo(env, client.name, topic) !== 'ask' && isOpen[topic](client, target)),
  })).filter((one) => one.clients.length > 0);
}

/** Does it ask its user about messages, in one of its modes? Not where its user wrote into its settings what to do. */
function asksAboutMessages(client: ClientSettings, target: InstallTarget): boolean {
  const rule = client.inboundRule?.(target);
  if (!rule) return false;
  try {
    return !existsSync(rule.path) || !rule.isThere(readFileSync(rule.path, 'utf8'));
  } catch (error) {
    if (error instanceof NotEditable) return false;
    throw error;
  }
}

/** What can be allowed, for people: in plain words, in lines that fit into a terminal. */
export function topicLines(questions: readonly ConsentQuestion[]): string[] {
  const about: Record<Topic, (clients: string) => string> = {
    reply: (clients) =>
      `A model that answers mail may stop at a permission dialog of ${clients}. With this it answers those who wrote to it ` +
      'without asking you. It still asks before it writes to others.',
    inbound: (clients) =>
      `${clients} in bypass mode asks you about each message before its model gets it. With this it does not ask: messages of ` +
      `Parley, and of every other program of your account, come in ("${INBOUND_KEY}": "accept").`,
  };
  return questions.flatMap(({ topic, clients }) => {
    const words = about[topic](clients.map(({ title }) => title).join(', '));
    return wrapped(words, LINE - INDENT).map((line, at) => `  ${(at === 0 ? topic : '').padEnd(INDENT - 2)}${line}`);
  });
}

const LINE = 79;
const INDENT = 11;

/** Only a person at a terminal is asked. */
export function canAsk(env: Env): boolean {
  return isTerminal(0) && whyNotUser(env) === null;
}

/**
 * Whether a session that asks about each message is started so that it does not. It is asked once; without a terminal the answer of before
 * counts. A client that does not ask is started as it is.
 */
export function letsMessagesIn(context: Context, client: string, holds: boolean): boolean {
  const { env } = context;
  const known = consentTo(env, client, 'run') ?? consentTo(env, client, 'inbound');
  if (!holds || known !== undefined || !canAsk(env)) return holds && known === 'allow';
  const clients = SETTINGS_CLIENTS.filter(({ name }) => name === client);
  for (const line of ['Yours to decide:', ...topicLines([{ topic: 'inbound', clients }])]) context.note(line);
  const isAllowed = isSure(context, 'Let messages in without asking, in sessions of `parley run`?');
  keepConsent(env, client, 'run', isAllowed ? 'allow' : 'ask');
  context.note(
    isAllowed
      ? `parley: noted. To change it: parley install ${client} --inbound ask`
      : `parley: noted. To let them in, in all its sessions: parley install ${client} --inbound allow`,
  );
  return isAllowed;
}
