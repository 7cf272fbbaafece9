import { isNovel } from './novelty.ts';
import type { Said } from './novelty.ts';
import { plainWords } from './prose.ts';
import { asksQuestion } from './thanks.ts';

/** Words that make a question and say nothing of what it is about. */
const FORM = new Set(
  (
    'who what when where why how which can could would will shall should may might must do does did is are was were be been am ' +
    'has have had i you we they he she it this that these those me us my your our the a an of to for in on at with from by as ' +
    'and or but so not no yes if then than there here please also too now again really still just well ok okay right maybe ' +
    'any some anything something everything everyone anyone else more today doing going know think like want need let'
  ).split(' '),
);
const WORD = /[\p{L}\p{N}]+/gu;
/** How much of what a question is about must have been there before for it to be the same one. */
const ALIKE = 0.75;

/**
 * Does it only ask what this exchange has asked already, or nothing that could be answered ("how are you?")? Whoever asks is heard
 * even where nothing new is said, but two agents can ask each other the same for ever. spec: c2a#loops
 */
export function asksAgain(body: string, earlier: readonly Said[]): boolean {
  const about = [...new Set(questionsIn(body).flatMap(matterIn))];
  if (about.length === 0) return true;
  if (isNovel({ body }, earlier)) return false;
  return earlier.some((one) => {
    const told = new Set(questionsIn(one.body).flatMap(matterIn));
    return about.filter((word) => told.has(word)).length / about.length >= ALIKE;
  });
}

function questionsIn(body: string): string[] {
  return plainWords(body)
    .split(/(?<=[.!?;])\s|\n/)
    .filter((sentence) => asksQuestion(sentence));
}

function matterIn(sentence: string): string[] {
  return (sentence.toLowerCase().match(WORD) ?? []).filter((word) => !FORM.has(word) && !/^\p{N}+$/u.test(word));
}
