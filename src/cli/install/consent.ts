import { existsSync, readFileSync } from 'node:fs';
import { INBOUND_KEY } from '../../clients/claude/settings.ts';
import { SETTINGS_CLIENTS } from '../../clients/installable.ts';
import { INBOUND, ruleFor } from '../../clients/settings/client-settings.ts';
import type { ClientSettings, InstallTarget } from '../../clients/settings/client-settings.ts';
import type { Recorded } from '../../clients/settings/manifest.ts';
import { NotEditable } from '../../clients/settings/text-edit.ts';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { isSure, startedByClient, whyNotUser } from '../../platform/authority.ts';
import { parleyHome } from '../../platform/env.ts';
import { isTerminal } from '../../platform/terminal.ts';
import { changeTable, readTable } from '../../platform/trust.ts';
import type { Context } from '../context.ts';
import { asksBeforeReply } from './allow.ts';

/**
 * What widens a client, so that only its user can decide it. `reply`: its model answers mail without a dialog. `inbound`: messages come in
 * without one. Each is asked for once, and the answer is kept, a no too. Options change it: `--allow`, `--inbound`.
 */
const TOPICS = ['reply', 'inbound'] as const;
export type Topic = (typeof TOPICS)[number];

/** `ask`: the client goes on asking. */
export type Consent = 'allow' | 'ask';

/** What the user answered for a client; undefined if nobody asked yet. What cannot be read was never answered. */
export function consentTo(env: Env, client: string, topic: Topic): Consent | undefined {
  const answers = readTable(fileOf(env))[client];
  const answer = typeof answers === 'object' && answers !== null ? (answers as Record<string, unknown>)[topic] : null;
  return answer === 'allow' || answer === 'ask' ? answer : undefined;
}

export function keepConsent(env: Env, client: string, topic: Topic, consent: Consent): void {
  changeTable(fileOf(env), (table) => ({ ...table, [client]: { ...(table[client] as object), [topic]: consent } }));
}

/** A client without Parley has no answers: the next installation asks. */
export function forgetConsents(env: Env, client: string): void {
  if (client in readTable(fileOf(env))) changeTable(fileOf(env), ({ [client]: _gone, ...rest }) => rest);
}

function fileOf(env: Env): string {
  return `${parleyHome(env)}/consents.json`;
}

/** What `--inbound` says. A model cannot let messages in to itself. */
export function inboundFrom(word: string | undefined, env: Env): Consent | null {
  if (word === undefined) return null;
  if (word !== 'allow' && word !== 'ask') throw new Refusal('invalid_request', '--inbound is allow or ask');
  const why = startedByClient(env);
  if (why !== null)
    throw new Refusal('not_yours', `Only the user can let messages in. ${why}. Run it in your own terminal.`);
  return word;
}

/** One thing that the user may allow, and for which clients. */
export interface ConsentQuestion {
  topic: Topic;
  clients: readonly ClientSettings[];
}

/** What was never decided for these clients: neither asked here nor written into their settings. */
export function openQuestions(env: Env, target: InstallTarget, clients: readonly ClientSettings[]): ConsentQuestion[] {
  const isOpen = { reply: asksBeforeReply, inbound: asksAboutMessages };
  return TOPICS.map((topic) => ({
    topic,
    clients: clients.filter(
      (client) => consentTo(env, client.name, topic) === undefined && isOpen[topic](client, target),
    ),
  })).filter((one) => one.clients.length > 0);
}

/** Does it ask its user about messages, in one of its modes? Not where its user wrote into its settings what to do. */
export function asksAboutMessages(client: ClientSettings, target: InstallTarget): boolean {
  const rule = client.inboundRule?.(target);
  if (!rule) return false;
  try {
    return !existsSync(rule.path) || !rule.isThere(readFileSync(rule.path, 'utf8'));
  } catch (error) {
    if (error instanceof NotEditable) return false;
    throw error;
  }
}

/** For people, in plain words, in lines that fit into a terminal. */
export function questionLines(questions: readonly ConsentQuestion[]): string[] {
  const about: Record<Topic, (clients: string) => string> = {
    reply: (clients) =>
      `A model that answers mail may stop at a permission dialog of ${clients}. With this it answers those who wrote to it ` +
      'without asking you. It still asks before it writes to others.',
    inbound: (clients) =>
      `${clients} in bypass mode asks you about each message before its model gets it. With this it does not ask: messages of ` +
      `Parley, and of every other program of your account, come in ("${INBOUND_KEY}": "accept").`,
  };
  return [
    'Yours to decide. Nothing of this is done unless you name it:',
    ...questions.flatMap(({ topic, clients }) => {
      const words = about[topic](clients.map(({ title }) => title).join(', '));
      return wrapped(words, LINE - INDENT).map((line, at) => `  ${(at === 0 ? topic : '').padEnd(INDENT - 2)}${line}`);
    }),
  ];
}

const LINE = 79;
const INDENT = 11;

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1) ?? ''} ${word}`;
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Only a person at a terminal is asked. */
export function canAsk(env: Env): boolean {
  return isTerminal(0) && whyNotUser(env) === null;
}

/** What Parley wrote to widen a client, of what is recorded. */
export function widened(topic: Topic, recorded: readonly Recorded[]): Recorded[] {
  return recorded.filter(({ what }) => (topic === 'inbound' ? what === INBOUND : what.startsWith(ruleFor(''))));
}

/**
 * Whether a session that asks about each message is started so that it does not. It is asked once; without a terminal the answer of before
 * counts. A client that does not ask is started as it is.
 */
export function letsMessagesIn(context: Context, client: string, holds: boolean): boolean {
  const { env } = context;
  const known = consentTo(env, client, 'inbound');
  if (!holds || known !== undefined || !canAsk(env)) return holds && known === 'allow';
  const clients = SETTINGS_CLIENTS.filter(({ name }) => name === client);
  for (const line of questionLines([{ topic: 'inbound', clients }])) context.note(line);
  const isAllowed = isSure(context, 'Let messages in without asking, in sessions of `parley run`?');
  keepConsent(env, client, 'inbound', isAllowed ? 'allow' : 'ask');
  context.note(`parley: noted. To change it: parley install ${client} --inbound ${isAllowed ? 'ask' : 'allow'}`);
  return isAllowed;
}
