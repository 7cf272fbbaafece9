// One process at work on the obligations in a journal: `obligation.child.ts <ledger.db> <act> <id> <name>`. Says on stdout, one JSON value a
// line, that it is ready, and what it did once it was told to go on.
import { anObligation } from './obligation-row.ts';
import { writeSync } from 'node:fs';
import { AgentName, MessageId } from '../../src/core/names.ts';
import { openSqliteJournal } from '../../src/store/journal/sqlite.ts';
import { bob } from './mail.ts';

const [, , path = '', act = '', which = '', name = ''] = process.argv;
const id = MessageId.parse(which);
const journal = openSqliteJournal({ path, durability: 'normal' });

const acts: Record<string, () => Promise<unknown>> = {
  /** Ten claimers at once. */
  async claim() {
    const holders = Array.from({ length: 10 }, (_, n) => AgentName.parse(`${name}-${n}`));
    const claims = holders.map((holder) => journal.claimEvent({ key: id, holder, until: 100, reserved: false }, 0));
    return (await Promise.all(claims)).map(({ holder }) => holder);
  },

  async change() {
    for (let n = 0; n < 50; n += 1) {
      await journal.changeObligation(bob, id, (obligation) => ({ ...obligation, returns: obligation.returns + 1 }));
    }
  },

  /** Says whether it was the one that ended it. */
  async end() {
    const by = { by: name };
    const obligation = await journal.changeObligation(bob, id, (one) => ({
      ...one,
      ended: { as: 'responded', at: 1, by },
    }));
    return obligation?.ended?.by['by'] === name;
  },

  async enter() {
    const { from, upTo, copies } = await journal.unentered(100);
    return journal.enter(
      from,
      upTo,
      copies.map(({ copy }) => anObligation({ id: copy.id, note: name })),
    );
  },

  async dieChanging() {
    await journal.changeObligation(bob, id, (obligation) => {
      process.kill(process.pid, 'SIGKILL');
      return { ...obligation, note: 'never' };
    });
  },

  /** Dies over the second of two. */
  async dieEntering() {
    const { from, upTo } = await journal.unentered(100);
    const second = anObligation();
    Object.defineProperty(second, 'note', { enumerable: true, get: () => process.kill(process.pid, 'SIGKILL') });
    await journal.enter(from, upTo, [anObligation({ id }), second]);
  },
};

say({ ready: true });
for await (const _chunk of Bun.stdin.stream()) break;
say({ did: (await acts[act]?.()) ?? null });
await journal.close();
process.exit(0);

function say(fact: object): void {
  writeSync(1, `${JSON.stringify(fact)}\n`);
}
