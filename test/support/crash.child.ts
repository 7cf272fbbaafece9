// One process at work in a home, which may die at a named step: `crash.child.ts <home> <act> [<step> [<nth> [<key>…]]]`
// Says on stdout, one JSON value a line, every step it reaches and what it may claim to have done.
import { writeSync } from 'node:fs';
import { SendKey } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';
import { anEntry, bob, carol, LOUD, QUIET } from './mail.ts';
import { openBrokerHome } from './c2c-broker.ts';
import { openHome } from './maildir.ts';

const [, , root = '', act = '', fatal = '', nth = '1', ...keys] = process.argv;
const LEASE = { ms: 30_000 };
const SETTLEMENT = { disposition: 'acknowledged', by: { test: true } } as const;

let left = Number(nth);
function onStep(step: string): void {
  say({ step });
  if (step !== fatal) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
}

const open = process.env['SPOOL'] === 'c2c-broker' ? openBrokerHome : openHome;
const { mailboxes, journal, close } = await open(root, { onStep, heal: process.env['HEAL'] !== 'no' });

const acts: Record<string, () => Promise<unknown>> = {
  async heal() {},

  /** The first step of every reader that lists its mail. */
  async square() {
    await mailboxes.adopt(bob);
  },

  async send() {
    for (const key of keys) await put(key);
  },

  /** Everything that waits for bob, in one go. */
  async take() {
    await take(await mailboxes.ids(bob), false);
  },

  /** These ids, which may have no file, or everything. */
  async keep() {
    await take(keys.length > 0 ? (keys as MessageId[]) : await mailboxes.ids(bob), true);
  },

  /** Takes all waiting mail of bob, one message at a time. */
  async drain() {
    for (let ids = await mailboxes.ids(bob); ids.length > 0; ids = await mailboxes.ids(bob)) {
      for (const id of ids) await take([id], false);
    }
  },

  /** Claims everything and stays alive. */
  async hold() {
    const claim = await mailboxes.claim(bob, await mailboxes.ids(bob), LEASE);
    say({ held: claim.copies.map(({ message }) => message.id) });
    await told();
  },

  /** Like `hold`, with these ids, which may have no file. */
  async holdAll() {
    const claim = await mailboxes.claim(bob, keys as MessageId[], LEASE);
    say({ held: claim.copies.map(({ message }) => message.id) });
    await told();
  },

  async release() {
    const claim = await mailboxes.claim(bob, await mailboxes.ids(bob), LEASE);
    await mailboxes.release(
      claim,
      claim.copies.map(({ message }) => message.id),
      { because: 'test' },
    );
  },

  /** Everything that waits quietly for carol. */
  async raise() {
    for (const id of await mailboxes.ids(carol)) await mailboxes.raise(carol, id);
  },

  async withdraw() {
    for (const { message } of await journal.history({ limit: 100 }))
      await mailboxes.withdraw(message.id, { test: true });
  },
};

// Those who race start together.
if (process.env['START_TOGETHER']) {
  say({ ready: true });
  await told();
}
await acts[act]?.();
await close();

async function put(key: string): Promise<void> {
  const copies = [
    { mailbox: bob, attention: LOUD },
    { mailbox: carol, attention: QUIET },
  ];
  const body = 'x'.repeat(Number(process.env['BODY'] ?? 100));
  const { message } = await mailboxes.put(anEntry({ to: '#dev', body }, { key: SendKey.parse(key), copies }));
  say({ stored: message.id, key });
}

async function take(ids: MessageId[], keep: boolean): Promise<void> {
  const claim = await mailboxes.claim(bob, ids, LEASE);
  const held = claim.copies.map(({ message }) => message.id);
  if (held.length === 0) return;
  const done = await mailboxes.settle(claim, held, { ...SETTLEMENT, keep }, () => {
    for (const { message, attempt } of claim.copies) say({ shown: message.id, attempt });
  });
  if (done) for (const id of held) say({ settled: id });
}

async function told(): Promise<void> {
  for await (const _chunk of Bun.stdin.stream()) return;
}

function say(fact: object): void {
  writeSync(1, `${JSON.stringify(fact)}\n`);
}
