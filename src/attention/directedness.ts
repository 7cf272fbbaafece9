import type { Directedness } from '../protocol/attention.ts';
import type { Facts } from './decide.ts';

/** Who is meant, by recipient, mention and ownership; the first line that applies decides. spec: c2a#directedness */
const AIMS: readonly [Directedness, (facts: Facts) => boolean][] = [
  // Told to nobody, by its sender's own word: names in it call nobody. To be meant takes more than a word.
  ['ambient', (f) => f.aim === 'ambient'],
  ['to_me', (f) => f.via === 'dm' || f.mentionsMe],
  ['to_my_role', (f) => f.via === 'role' || f.mentionsMyRole],
  // Whoever names someone else has a clear recipient, even in a thread of the reader's.
  ['to_other', (f) => f.mentionsOther],
  ['to_me', (f) => takesPart(f) && asks(f)],
  ['to_my_role', (f) => takesPart(f) || f.ownsStream],
  // A reply is meant for those in its thread; a post that opens one is meant for nobody yet.
  ['to_other', (f) => f.fromAgent && f.threadReply && !hasTask(f)],
];

export function directednessOf(facts: Facts): Directedness {
  return AIMS.find(([, applies]) => applies(facts))?.[0] ?? 'ambient';
}

function takesPart({ inThreadIHaveJoined, ownsThread }: Facts): boolean {
  return inThreadIHaveJoined || ownsThread;
}

/** Declared information stays information, whatever its punctuation. */
function asks({ intent, asksQuestion }: Facts): boolean {
  return intent === 'question' || (asksQuestion && intent !== 'fyi');
}

function hasTask(facts: Facts): boolean {
  return asks(facts) || facts.intent === 'assignment' || facts.intent === 'approval' || facts.intent === 'blocker';
}

/** The reader is called by name. */
export function callsMe({ mentionsMe, aim }: Facts): boolean {
  return mentionsMe && aim !== 'ambient';
}
