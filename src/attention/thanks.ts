import { mayBeThanks, patterns } from './phrases.ts';
import { plainWords, withoutQuotes } from './prose.ts';

const HANDS_AND_HEARTS = /[👍👌🙏🙌👏🤝🫡👀💯❤💙💚💜🧡💛]|:(?:\+1|thumbsup|pray|clap|ok_hand|heart|raised_hands):/gu;
// A tick or a smile beside thanks adds nothing; alone, a tick says "done".
const DECORATION = /[✅✨🎉🥳🚀😀😃😄😁🙂😊☺😎]|:tada:|[:;]-?[)d]/gu;
const SKIN_TONES_AND_JOINERS = /\p{Emoji_Modifier}|\u{FE0F}|\u{200D}/gu;
const ONLY_MARKS = /^[\s.,!…~*_–—-]*$/u;

/**
 * True if a body is thanks, a receipt or social filler and nothing else, in English. Every word must be a known one: a
 * question, a request, code, a path, a link, a number or just an unknown word leaves something over. spec: c2a#thanks
 */
export function isOnlyThanks(body: string): boolean {
  const lower = withoutQuotes(body).toLowerCase().replaceAll('’', "'");
  if (!mayBeThanks(lower)) return false;
  const words = lower.replace(SKIN_TONES_AND_JOINERS, '');
  const unthanked = words.replace(HANDS_AND_HEARTS, ' ').replace(patterns.thanks, ' ');
  const rest = unthanked.replace(patterns.along, ' ').replace(DECORATION, ' ');
  return unthanked !== words && ONLY_MARKS.test(rest);
}

const QUESTION_MARK = /\?(?=[\s?!…"'”’)\]*_]|\p{Extended_Pictographic}|$)|[？؟]/u;
const ASKS_YOU = /(?:^|, ?|\b(?:and|but|so|also|thanks|please) )(?:can|could|would|will) you\b/i;
const OPENS_A_QUESTION = new RegExp(
  [
    '^(?:can|could|would|will|did|do|have|are|were|should|shall) (?:you|we|i|they|anyone|someone)\\b',
    "^(?:who|what|when|where|why|how)(?:'s| (?:is|are|was|were|do|does|did|can|could|should|would|will|many|much))\\b",
    '^(?:is|does|did|has|was) (?:it|this|that|there|the|anyone|someone)\\b',
  ].join('|'),
  'i',
);

/** True if the author asks something in plain words; quoted lines, code and links do not count. spec: c2a#questions */
export function asksQuestion(body: string): boolean {
  const words = plainWords(body);
  if (QUESTION_MARK.test(words)) return true;
  const sentences = words.split(/[.!;:\n]/).map((sentence) => sentence.trim());
  return sentences.some((sentence) => ASKS_YOU.test(sentence) || OPENS_A_QUESTION.test(sentence));
}
