import type { AgentName } from '../../protocol/names.ts';
import type { LateCopies, Standing } from '../ledger/late.ts';

/** How many waiting messages are read in one go: others want an answer too. */
const PAGE = 500;

/** Everything that waits in a mailbox, in order of arrival. */
export async function wholeShelf(ledger: LateCopies, mailbox: AgentName): Promise<Standing[]> {
  const all: Standing[] = [];
  for (;;) {
    const page = await ledger.shelf(mailbox, all.at(-1)?.seq ?? 0, PAGE);
    all.push(...page);
    if (page.length < PAGE) return all;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
