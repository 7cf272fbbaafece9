import type { Copy } from '../ports/journal.ts';

/** What a guard lets through, in the words of a command's options, of a mail tool's arguments or of a C2A tool's arguments. */
const GETS_THROUGH = {
  command: 'something new, --intent question|blocker|assignment, or --urgent',
  tool: 'something new, intent question, blocker or assignment, or urgent',
  c2a: 'something new, intent question, blocker or assignment, or priority urgent',
};

/** The lines for a sender whose copies a guard holds back: one line per guard. spec: c2a#loops */
export function heldLines(copies: readonly Copy[], by: keyof typeof GETS_THROUGH): string[] {
  const held = copies.filter(({ attention }) => attention.reason === 'loop');
  const later = held.filter(({ attention }) => attention.injection === 'digest');
  const quiet = held.filter(({ attention }) => attention.injection !== 'digest');
  const through = `what gets through: ${GETS_THROUGH[by]}`;
  return [
    ...(quiet.length > 0
      ? [
          `quiet: it repeats this exchange, so it waits in the mailbox of ${named(quiet)} and interrupts nobody; ${through}`,
        ]
      : []),
    ...(later.length > 0
      ? [
          `later: this exchange goes in circles, so ${named(later)} sees it with its next own turn and owes no answer; ${through}`,
        ]
      : []),
  ];
}

function named(copies: readonly Copy[]): string {
  const names = copies.slice(0, 5).map(({ mailbox }) => `@${mailbox}`);
  return copies.length > 5 ? `${names.join(', ')} and ${copies.length - 5} more` : names.join(', ');
}
