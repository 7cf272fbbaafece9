/** Finds any of a table's phrases as whole words. One line of the table per group; a comma ends a phrase. */
function phrases(table: string): RegExp {
  const list = table.split(/[,\n]/).flatMap((phrase) => phrase.trim() || []);
  // Longest first, so that "great work" is not read as "great" with "work" left over.
  const longestFirst = list.toSorted((a, b) => b.length - a.length);
  return new RegExp(`(?<![\\w'@+-])(?:${longestFirst.join('|')})(?![\\w'@-])`, 'gu');
}

/** Each is thanks, a receipt or filler by itself. Left out on purpose: yes, no, done, approved, go ahead: answers. */
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

/** Goes along with thanks, and says nothing of its own. */
const ALONG = `
  so much, very much, a lot, a bunch, a million, and, so, oh, ah, hey, too, really, as always, @[a-z0-9][a-z0-9._-]*
  all, both, everyone, everybody, team, folks
  for (?:the|your)(?: (?:quick|great|kind|prompt|clear))? (?:update|help|info|work|support|patience|review|reply)
  for (?:the|your)(?: (?:quick|great|kind|prompt|clear))? (?:response|answer|feedback|note|context|confirmation)
  for (?:the|your) (?:clarification|information|heads[ -]up), for all (?:the|your) (?:help|work|support)
  for (?:that|this|everything|confirming|clarifying|sharing|helping|letting me know|checking in|your time)
`;

/** Every word of the tables, and the names of the emoji that go with them. */
const VOCABULARY = `${THANKS} ${ALONG} thumbsup pray clap hand heart raised hands tada d`;

/**
 * False if some word is in no table: a cheap look that spares most messages the patterns below. It walks as far as the first such word,
 * without a pattern: to make one ready for its first use takes longer.
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

function endOf(text: string, start: number, goesOn: (code: number) => boolean): number {
  let end = start;
  while (end < text.length && goesOn(text.charCodeAt(end))) end += 1;
  return end;
}

/** a to z, 0 to 9. */
function isOfWord(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 48 && code <= 57);
}

/** The same, and . _ - as in a name. */
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
