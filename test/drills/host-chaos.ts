import { openWorkspace } from '../../src/daemon/homes.ts';
import { existsSync, readFileSync } from 'node:fs';
import { enterObligations } from '../../src/core/obligations/obligation.ts';
import { send } from '../../src/core/mail/send.ts';
import { BODY_LIMIT, Draft } from '../../src/core/message.ts';
import { AgentName } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';
import { newAgentToken } from '../../src/wire/tokens.ts';
import { temporaryHome } from '../support/home.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import type { Line, Plan } from './harness.child.ts';

const names = (what: string, count: number): AgentName[] =>
  Array.from({ length: count }, (_, n) => AgentName.parse(`${what}-${n}`));
const READERS = names('reader', 8);
const SENDERS = names('sender', 8);
const DAY_MS = 24 * 60 * 60 * 1000;
const ENOUGH_MS = 8 * 60 * 1000;
/** Agents write no faster than others read. */
const MOST_OPEN = 400;

/** One process that is killed and started again. */
class Child {
  #process: Bun.Subprocess | undefined;

  constructor(
    readonly command: string[],
    readonly env: Record<string, string>,
  ) {}

  start(): void {
    this.#process = Bun.spawn([process.execPath, ...this.command], {
      env: this.env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }

  async kill(): Promise<void> {
    this.#process?.kill('SIGKILL');
    await this.#process?.exited;
  }
}

/**
 * Host and harness are killed again and again, and one frame in ten is lost, doubled or late, while agents write. In the end every
 * message was put before its model once, in the order of its conversation, and has one final disposition.
 */
export const hostChaos: Drill = {
  name: 'a host among lost frames and kills',
  async run(isLong, tell) {
    const total = isLong ? 10_000 : 300;
    const root = temporaryHome();
    const env = { PARLEY_HOME: `${root}/home`, BACKCHANNEL_HOME: `${root}/none`, PATH: process.env['PATH'] ?? '' };
    const workspace = openWorkspace(env, { bodyLimit: BODY_LIMIT, durability: 'normal' });
    const [home] = workspace.homes;
    if (!home) throw new Error('a workspace has a home');
    for (const name of [...READERS, ...SENDERS]) await home.directory.register(name, 'agent');
    const diary = `${root}/diary`;
    const plan: Plan = { socket: `${root}/host/socket`, diary, readers: READERS, token: newAgentToken() };
    const host = new Child([`${import.meta.dir}/host.child.ts`, plan.socket], env);
    const harness = new Child([`${import.meta.dir}/harness.child.ts`, JSON.stringify(plan)], env);
    host.start();
    harness.start();

    const sent = new Map<string, { reader: AgentName; conversation: string }>();
    let done = 0;
    const counting = setInterval(() => {
      done = linesOf(diary).filter((line) => line.done !== undefined).length;
    }, 250);
    const sending = (async () => {
      const deadline = new Date(Date.now() + DAY_MS).toISOString();
      for (let n = 0; n < total; n += 1) {
        const [from, reader] = [at(SENDERS, n), at(READERS, Math.floor(n / SENDERS.length))];
        const draft = Draft.parse({ to: `@${reader}`, body: `please look at item ${n}`, deadline });
        const { message } = await send(workspace, from, draft);
        sent.set(message.id, { reader, conversation: `${from} ${reader}` });
        while (sent.size - done > MOST_OPEN) await Bun.sleep(20);
      }
    })();

    let kills = 0;
    const since = Date.now();
    while (done < total && Date.now() - since < ENOUGH_MS) {
      await Bun.sleep(isLong ? 1000 + Math.random() * 2000 : 300 + Math.random() * 900);
      const victim = Math.random() < 0.5 ? host : harness;
      await victim.kill();
      victim.start();
      kills += 1;
      if (kills % 20 === 0) tell(`${kills} kills, ${done} done`);
    }
    clearInterval(counting);
    await Promise.race([sending, Bun.sleep(1000)]);
    await harness.kill();
    await host.kill();

    const faults = new Faults();
    const lines = linesOf(diary);
    const shown = lines.flatMap((line) => line.shown ?? []);
    const known = new Set(shown);
    faults.none(
      [...sent.keys()].filter((id) => !known.has(id)),
      'were lost',
    );
    faults.expect(shown.length === known.size, `${shown.length - known.size} were shown twice`);
    faults.none(
      lines.flatMap(({ fault }) => fault ?? []),
      'faults',
    );
    faults.none(outOfOrder(shown, sent), 'came before an older one of their conversation');
    await enterObligations(home);
    const unended: string[] = [];
    for (const [id, { reader }] of sent) {
      const obligation = await home.journal.obligation(reader, id as MessageId);
      // What was merged into a newer turn is superseded by it.
      if (!obligation?.ended) unended.push(`${id} ${obligation?.state ?? 'no duty'}`);
    }
    faults.none(unended, 'have no final disposition');
    await home.mailboxes.close();
    await home.journal.close();
    return { counts: { events: sent.size, kills, shown: known.size }, faults: faults.found };
  },
};

function at<T>(list: readonly T[], n: number): T {
  return list[n % list.length] as T;
}

function linesOf(diary: string): Line[] {
  if (!existsSync(diary)) return [];
  const lines = readFileSync(diary, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Line);
}

/** Messages of one conversation were sent one after the other: so they must have been shown. */
function outOfOrder(shown: readonly string[], sent: ReadonlyMap<string, { conversation: string }>): string[] {
  const place = new Map([...sent.keys()].map((id, n) => [id, n]));
  const last = new Map<string, number>();
  const late: string[] = [];
  for (const id of shown) {
    const conversation = sent.get(id)?.conversation ?? '';
    const n = place.get(id) ?? 0;
    if (n < (last.get(conversation) ?? -1)) late.push(id);
    last.set(conversation, Math.max(n, last.get(conversation) ?? -1));
  }
  return late;
}
