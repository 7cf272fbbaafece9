import type { Intent } from '../message.ts';
import { isKnownSignal } from '../signal.ts';
import { plainWords } from './text.ts';
import { asksQuestion, isOnlyThanks } from './thanks.ts';

/** A knock has fewer than this many letters in a row in common with the body. */
const OWN_LETTERS = 8;

/** The kinds of message. Each has a phrase that reveals nothing of the body, and a shorter one. */
const KINDS = {
  question: ['question', 'asks'],
  assignment: ['work handed over', 'work'],
  approval: ['approval wanted', 'yes/no'],
  blocker: ['somebody is blocked', 'blocked'],
  fyi: ['for information', 'info'],
  status: ['status', 'status'],
  thanks: ['thanks', 'thanks'],
  reaction: ['reaction', 'signal'],
  code: ['code', 'code'],
  pointers: ['files or links', 'links'],
  reply: ['reply', 'reply'],
  message: ['message', 'mail'],
} as const satisfies Record<string, readonly [string, string]>;

/** The topics. The first topic with a word in the body is used. */
const SUBJECTS: readonly [string, RegExp][] = [
  ['a review', /\b(?:review(?:s|ed|ing)?|pull requests?|prs?|merge requests?)\b/i],
  ['an incident', /\b(?:incident|outage|pager?|on-?call|sev-?\d)\b/i],
  ['security', /\b(?:security|vulnerabilit(?:y|ies)|cve|secrets?|credentials?)\b/i],
  ['tests', /\b(?:tests?|specs?|coverage|flak(?:e|y))\b/i],
  ['a build', /\b(?:builds?|compil(?:e|es|er|ing)|ci|pipelines?)\b/i],
  ['a deploy', /\b(?:deploy(?:s|ed|ing|ment)?|roll-?backs?|roll-?outs?)\b/i],
  ['a release', /\b(?:releases?|versions?|changelog)\b/i],
  ['a merge', /\b(?:merg(?:e|es|ed|ing)|rebas(?:e|ed|ing)|conflicts?|branch(?:es)?)\b/i],
  ['data', /\b(?:database|migrations?|schema|tables?|quer(?:y|ies))\b/i],
  ['an error', /\b(?:errors?|exceptions?|crash(?:es|ed)?|bugs?|stack ?trace|fail(?:s|ed|ure|ures|ing)?)\b/i],
  ['documents', /\b(?:docs?|documentation|readme)\b/i],
  ['plans', /\b(?:plans?|designs?|proposals?|roadmap)\b/i],
];
/** Only the beginning of a body is searched for a topic. */
const LOOKED_AT = 2_000;

/** A short line for a knock, in Parley's own words. It contains nothing of the body. spec: c2a#knock */
export function topicOf(said: {
  intent: Intent;
  body: string;
  signal?: string;
  refs?: readonly string[];
  thread: boolean;
}): string {
  const body = said.body.toLowerCase();
  const [kind, short] = said.signal === undefined ? KINDS[kindOf(said)] : reactionOf(said.signal);
  const about = said.signal === undefined ? subjectOf(said.body) : undefined;
  const forms = [...(about === undefined ? [] : [`${kind} about ${about}`]), kind];
  return forms.find((form) => !sharesLetters(form, body)) ?? short;
}

function kindOf({ intent, body, refs = [], thread }: Parameters<typeof topicOf>[0]): keyof typeof KINDS {
  if (intent !== 'none') return intent;
  if (isOnlyThanks(body)) return 'thanks';
  if (asksQuestion(body)) return 'question';
  if (/^[ \t]*(?:```|~~~)/.test(body)) return 'code';
  if (refs.length > 0) return 'pointers';
  return thread ? 'reply' : 'message';
}

/** A signal that a workspace defines is not repeated, because another program wrote it. */
function reactionOf(signal: string): readonly [string, string] {
  return isKnownSignal(signal) ? [`reaction: ${signal}`, KINDS.reaction[1]] : KINDS.reaction;
}

function subjectOf(body: string): string | undefined {
  const words = plainWords(body.slice(0, LOOKED_AT));
  return SUBJECTS.find(([, says]) => says.test(words))?.[0];
}

function sharesLetters(form: string, body: string): boolean {
  for (let at = 0; at + OWN_LETTERS <= form.length; at += 1) {
    if (body.includes(form.slice(at, at + OWN_LETTERS))) return true;
  }
  return false;
}
