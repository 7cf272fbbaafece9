import { readdirSync } from 'node:fs';
import { Caller } from '../support/caller.ts';
import { RelayProcess } from '../support/relay-process.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';

interface Mail {
  id: string;
  body: string;
}
interface Leased {
  lease: string;
  messages: { message: Mail; attempt: number }[];
}

const SENDERS = 8;
/** So many at once share a transaction. */
const CROWD = 24;

/**
 * A relay is killed again and again while agents send to it and one reads from it. Anyone who got no answer repeats the same key
 * at the relay that comes next, as our client does. The reader settles what it read and knows by id what it has had. In every other
 * life of the relay they wait, and a crowd sends without keys, as the original's client does, to a mailbox that nobody reads before the end.
 */
export const relayKills: Drill = {
  name: 'a relay killed under load',
  async run(isLong, tell) {
    const kills = isLong ? 20 : 3;
    const relay = await new RelayProcess(undefined, ['--rate', 'off']).start();
    const register = async (name: string): Promise<string> => (await Caller.register(relay.url, name)).token;
    const senders = await Promise.all(Array.from({ length: SENDERS }, (_, n) => register(`sender-${n}`)));
    const token = await register('reader');
    const pile = await register('pile');
    const up = new Turnstile();
    const accepted = new Map<string, string>();
    const twoIds: string[] = [];
    const settled: string[] = [];
    const stop = new AbortController();

    const sending = senders.map(async (sender, lane) => {
      for (let n = 0; !stop.signal.aborted; n += 1) {
        const key = `${lane}-${n}`;
        const id = await sendUntilAnswered(relay, up, sender, key);
        const before = accepted.get(key);
        if (before !== undefined && before !== id) twoIds.push(key);
        accepted.set(key, id);
      }
    });
    const crowd = new Crowd(relay, senders[0] ?? '');
    const reading = (async () => {
      while (!stop.signal.aborted) settled.push(...(await readSome(relay, up, token)));
    })();

    for (let n = 0; n < kills; n += 1) {
      if (n % 2 === 0) {
        up.shut();
        crowd.come(CROWD);
      }
      await Bun.sleep(150 + Math.random() * 250);
      up.shut();
      relay.kill('SIGKILL');
      await relay.ended;
      await crowd.gone();
      await relay.start();
      up.open();
      tell(`${n + 1} kills, ${accepted.size} accepted`);
    }
    stop.abort();
    await Promise.all([...sending, reading]);

    // What is left now is read to the end; what a killed reader's lease holds comes back when it runs out.
    const end = Date.now() + 60_000;
    const known = new Set(settled);
    while (known.size < accepted.size && Date.now() < end) {
      for (const id of await readSome(relay, up, token)) {
        settled.push(id);
        known.add(id);
      }
    }
    const left = await relay.as(token, 'reader').inbox();
    const piled = ((await relay.as(pile, 'pile').inbox()) as Mail[]).map(({ id }) => id);
    relay.kill('SIGTERM');
    await relay.ended;
    const faults = new Faults();
    faults.none(
      [...accepted].filter(([, id]) => !known.has(id)).map(([key]) => key),
      'accepted messages lost',
    );
    faults.none(twoIds, 'keys with two ids');
    faults.expect(known.size === settled.length, `${settled.length - known.size} settled twice`);
    faults.expect(left.length === 0, `${left.length} still wait`);
    faults.none(
      [...crowd.answered].filter((id) => !piled.includes(id)),
      'messages of the crowd lost that were answered',
    );
    faults.expect(crowd.answered.size > 0, 'the crowd got no answer');
    faults.expect(new Set(piled).size === piled.length, 'the pile has one twice');
    faults.none(readdirSync(`${relay.home}/spool/reader/new`), 'files of messages that were read');
    return {
      counts: { kills, accepted: accepted.size, settled: settled.length, crowd: crowd.answered.size },
      faults: faults.found,
    };
  },
};

/** Many who send at once, without keys, until the relay dies: who got no answer does not know, and does not repeat it. */
class Crowd {
  readonly answered = new Set<string>();
  #lanes: Promise<void>[] = [];

  constructor(
    readonly relay: RelayProcess,
    readonly token: string,
  ) {}

  come(many: number): void {
    this.#lanes = Array.from({ length: many }, () => this.#send());
  }

  /** Each ends at its first send without an answer. */
  async gone(): Promise<void> {
    await Promise.all(this.#lanes);
  }

  async #send(): Promise<void> {
    try {
      for (;;) {
        const answer = await this.relay.as(this.token).post('send', { to: '@pile', body: 'one of many' });
        this.answered.add(((await answer.json()) as Mail).id);
      }
    } catch {
      // The relay died.
    }
  }
}

/** Everybody waits here while the relay is down. */
class Turnstile {
  #open = Promise.resolve();
  #let: () => void = () => {};
  #isShut = false;

  shut(): void {
    if (this.#isShut) return;
    this.#isShut = true;
    this.#open = new Promise((resolve) => {
      this.#let = resolve;
    });
  }

  open(): void {
    this.#isShut = false;
    this.#let();
  }

  pass(): Promise<void> {
    return this.#open;
  }
}

async function sendUntilAnswered(relay: RelayProcess, up: Turnstile, token: string, key: string): Promise<string> {
  for (;;) {
    await up.pass();
    try {
      const answer = await relay.as(token).post('send', { to: '@reader', body: key }, { 'idempotency-key': key });
      const { id, error } = (await answer.json()) as { id?: string; error?: string };
      if (id) return id;
      throw new Error(error);
    } catch {
      // Whether it was stored nobody knows: the same key again.
      await Bun.sleep(5);
    }
  }
}

/** Takes some mail under a lease and settles it. If the answer to the lease is lost, the mail comes back when it runs out. */
async function readSome(relay: RelayProcess, up: Turnstile, token: string): Promise<string[]> {
  await up.pass();
  try {
    const { lease, messages } = await relay.as(token).ask<Leased>('lease', { max: 50, ms: 2000 });
    const ids = messages.map(({ message }) => message.id);
    if (ids.length > 0) return await settleUntilAnswered(relay, up, token, lease, ids);
  } catch {
    // The relay died.
  }
  await Bun.sleep(10);
  return [];
}

/** An unanswered settle is repeated: for the relay it is the same one. */
async function settleUntilAnswered(
  relay: RelayProcess,
  up: Turnstile,
  token: string,
  lease: string,
  ids: string[],
): Promise<string[]> {
  for (;;) {
    await up.pass();
    try {
      const answer = await relay.as(token).post('settle', { lease, ids, outcome: 'done' });
      return answer.status === 200 ? ids : [];
    } catch {
      await Bun.sleep(5);
    }
  }
}
