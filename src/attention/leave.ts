import { plainWords } from './prose.ts';

const PLACE = '(?:channel|thread|conversation|room|chat|exchange|discussion)';
/** Who is told, and how politely; then what they shall do. "I leave the thread" and "do not leave it" ask nobody. */
const TOLD =
  '^(?:(?:ok|okay|thanks|thank you|hey|hi|now|so|and)[, ]+)*(?:@[\\w.-]+[:,]? +|[\\w.-]+[:,] +)*(?:please |kindly |(?:you |could you |can you |would you |will you )(?:please |can |may |should |could |must |need to |have to )?)?';
const ORDERS = [
  `(?:please )?leave (?:this|the|our) (?:\\w+ )?${PLACE}(?! (?:open|as|be|un\\w+|running|in|to)\\b)`,
  `(?:please )?leave #[\\p{L}\\p{N}._-]+`,
  `(?:please )?(?:stay|keep|get|drop|bow) out of (?:this|the|our|it)\\b(?: (?:\\w+ )?${PLACE})?`,
  `(?:please )?(?:stop|quit) (?:replying|responding|answering|posting|writing|commenting|chiming in)(?: (?:here|in (?:this|the|our)|to (?:this|the)))`,
  `(?:please )?(?:be|go|stay|keep) (?:quiet|silent) (?:here|in (?:this|the|our)) ?`,
];
const ASKS = new RegExp(`${TOLD}(?:${ORDERS.join('|')})`, 'iu');

/** Is the reader asked to stay out of this channel or exchange? spec: c2a#leaving */
export function asksToLeave(body: string): boolean {
  // Nobody hides such a request in a long text, and a long text is costly.
  if (body.length > 2_000) return false;
  return plainWords(body)
    .split(/[.!?;\n]/)
    .some((sentence) => ASKS.test(sentence.trim()));
}
