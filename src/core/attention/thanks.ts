import { plainWords, withoutQuotes } from './text.ts';

/** A pattern that finds the phrases of a table as whole words. Commas and line ends separate phrases. */
function phrases(table: string): RegExp {
  const list = table.split(/[,\n]/).flatMap((phrase) => phrase.trim() || []);
  // Longest first, so that "great work" is not read as "great" with "work" left over.
  const longestFirst = list.toSorted((a, b) => b.length - a.length);
  return new RegExp(`(?<![\\w'@+-])(?:${longestFirst.join('|')})(?![\\w'@-])`, 'gu');
}

/** Phrases that are thanks, a receipt or filler by themselves. "yes", "no", "done", "approved" and "go ahead" are answers, so they are not here. */
const THANKS = `
  (?:so |many |so many )?thanks(?: again)?, thank (?:you|u)(?: again)?, thx, ty, tysm, tyvm, cheers, kudos
  (?:i )?(?:really )?appreciate (?:it|that|this), (?:much )?appreciated
  ok, okay, k, kk, ack, acked, acknowledged, (?:i )?got it, gotcha, understood, (?:duly )?noted, (?:message )?received
  roger(?: that)?, will do, (?:i'm |i am )?on it(?: now)?, sure thing, fair enough, \\+1, lgtm, good to (?:know|hear)
  (?:that )?sounds (?:good|great|like a plan), (?:that )?makes sense, (?:all |this |it )?looks (?:good|great)(?: to me)?
  perfect, great, awesome, excellent, nice, cool, wonderful, fantastic, brilliant, alright, all right, all good
  (?:great|good|nice|excellent|amazing) (?:work|job|stuff|catch|one), well done, you too, likewise
  no problem, np, no worries, you(?:'re| are) welcome, any ?time, my pleasure, glad (?:i|we) could help
  (?:always )?(?:happy|glad) to (?:help|hear (?:it|that)), (?:i'll|i will) stand by, (?:i'm |i am )?standing by
  (?:just )?let me know if you need anything(?: else)?, nothing (?:else|further|more) from me
  have a (?:great|good|nice) (?:day|one|evening|weekend), talk soon, bye, see you
`;

/** Phrases that add nothing to thanks. */
const ALONG = `
  so much, very much, a lot, a bunch, a million, and, so, oh, ah, hey, too, really, as always, @[a-z0-9][a-z0-9._-]*
  all, both, everyone, everybody, team, folks
  for (?:the|your)(?: (?:quick|great|kind|prompt|clear))? (?:update|help|info|work|support|patience|review|reply)
  for (?:the|your)(?: (?:quick|great|kind|prompt|clear))? (?:response|answer|feedback|note|context|confirmation)
  for (?:the|your) (?:clarification|information|heads[ -]up), for all (?:the|your) (?:help|work|support)
  for (?:that|this|everything|confirming|clarifying|sharing|helping|letting me know|checking in|your time)
`;

/** Every word of the tables, and the names of emoji that express thanks. */
const VOCABULARY = `${THANKS} ${ALONG} thumbsup pray clap hand heart raised hands tada d`;

/**
 * False if some word is in no table. This cheap test saves most messages the patterns below. It reads up to the first such word and uses no
 * pattern itself, because compiling one takes longer.
 */
export function mayBeThanks(words: string): boolean {
  for (let at = 0; at < words.length;) {
    if (words[at] === '@') at = endOf(words, at + 1, isOfName);
    else {
      const end = endOf(words, at, isOfWord);
      if (!VOCABULARY.includes(words.slice(at, end))) return false;
      at = Math.max(end, at + 1);
    }
  }
  return true;
}

function endOf(text: string, start: number, isPart: (code: number) => boolean): number {
  let end = start;
  while (end < text.length && isPart(text.charCodeAt(end))) end += 1;
  return end;
}

/** a to z, 0 to 9. */
function isOfWord(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 48 && code <= 57);
}

/** Also . _ - as in a name. */
function isOfName(code: number): boolean {
  return isOfWord(code) || code === 46 || code === 95 || code === 45;
}

/** The patterns, compiled when a message first needs them. */
export const patterns = {
  get thanks(): RegExp {
    return (compiled.thanks ??= phrases(THANKS));
  },
  get along(): RegExp {
    return (compiled.along ??= phrases(ALONG));
  },
};
const compiled: { thanks?: RegExp; along?: RegExp } = {};

const HANDS_AND_HEARTS = /[👍👌🙏🙌👏🤝🫡👀💯❤💙💚💜🧡💛]|:(?:\+1|thumbsup|pray|clap|ok_hand|heart|raised_hands):/gu;
// A tick or a smile beside thanks adds nothing; alone, a tick says "done".
const DECORATION = /[✅✨🎉🥳🚀😀😃😄😁🙂😊☺😎]|:tada:|[:;]-?[)d]/gu;
const SKIN_TONES_AND_JOINERS = /\p{Emoji_Modifier}|\u{FE0F}|\u{200D}/gu;
const ONLY_MARKS = /^[\s.,!…~*_–—-]*$/u;

/**
 * True if a body is only thanks, a receipt or social filler, in English. Every word must be a known one, so a question, a request, code, a
 * path, a link, a number or an unknown word makes it false. spec: c2a#thanks
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

/** True if the last line ends in a question. An earlier question, or a quoted one, is part of the answer. spec: c2a#questions */
export function endsInQuestion(body: string): boolean {
  const last = plainWords(body).trimEnd().split('\n').at(-1) ?? '';
  return /[?？؟]["'”’»)\]*_]*$/u.test(last.trimEnd());
}

const PLACE = '(?:channel|thread|conversation|room|chat|exchange|discussion)';
/** The beginning of a request: names and polite words. One of `ORDERS` must follow. "I leave the thread" and "do not leave it" ask nobody. */
const REQUEST =
  '^(?:(?:ok|okay|thanks|thank you|hey|hi|now|so|and)[, ]+)*(?:@[\\w.-]+[:,]? +|[\\w.-]+[:,] +)*(?:please |kindly |(?:you |could you |can you |would you |will you )(?:please |can |may |should |could |must |need to |have to )?)?';
const ORDERS = [
  `(?:please )?leave (?:this|the|our) (?:\\w+ )?${PLACE}(?! (?:open|as|be|un\\w+|running|in|to)\\b)`,
  `(?:please )?leave #[\\p{L}\\p{N}._-]+`,
  `(?:please )?(?:stay|keep|get|drop|bow) out of (?:this|the|our|it)\\b(?: (?:\\w+ )?${PLACE})?`,
  `(?:please )?(?:stop|quit) (?:replying|responding|answering|posting|writing|commenting|chiming in)(?: (?:here|in (?:this|the|our)|to (?:this|the)))`,
  `(?:please )?(?:be|go|stay|keep) (?:quiet|silent) (?:here|in (?:this|the|our)) ?`,
];
const ASKS = new RegExp(`${REQUEST}(?:${ORDERS.join('|')})`, 'iu');

/** Does the text ask its reader to stay out of this channel or exchange? spec: c2a#leaving */
export function asksToLeave(body: string): boolean {
  // Such a request is never in a long text, and a long text would be slow.
  if (body.length > 2_000) return false;
  return plainWords(body)
    .split(/[.!?;\n]/)
    .some((sentence) => ASKS.test(sentence.trim()));
}
