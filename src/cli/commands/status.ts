import { command } from '../command.ts';
import type { Context } from '../context.ts';
import { DOORS } from '../doors.ts';
import { whoIsOnDuty } from '../duty.ts';
import type { Notice } from '../duty.ts';
import { backchannelHome, parleyHome } from '../env.ts';
import type { Env } from '../env.ts';
import { ago } from '../words.ts';

/** As `systemctl status` has it: nothing runs; something runs and does not answer. */
const NOTHING_RUNS = 3;
const NO_ANSWER = 1;

interface DoorState {
  name: string;
  address: string;
  answers: boolean;
  details?: readonly string[];
}

interface Running extends Omit<Notice, 'doors' | 'v'> {
  /** The daemon, or a relay or host that was started by itself. */
  what: 'daemon' | 'relay' | 'host';
  home: string;
  doors: DoorState[];
}

export default command({
  usage: 'status',
  about:
    'What runs for your homes: the daemon (`parley up`), a relay (`parley relay`) or a host (`parley host`) by itself, since when, and whether each door answers.\n' +
    'Ends with 0 if something runs and answers, with 3 if nothing runs, with 1 if a door does not answer.',
  options: {},
  words: [0, 0],
  examples: ['parley status', 'parley status --json'],
  async run(context) {
    const running = await whatRuns(context);
    const isWell = running.every(({ doors }) => doors.every((door) => door.answers));
    process.exitCode = running.length === 0 ? NOTHING_RUNS : isWell ? 0 : NO_ANSWER;
    if (context.json) return context.sayJson({ running });
    if (running.length === 0) {
      context.say(`nothing runs in ${parleyHome(context.env)}; mail on this machine needs no daemon`);
      return context.say('Next: parley up --with <relay|outbox|host|loops> --detach');
    }
    for (const { what, home, pid, since, version, doors, finishing } of running) {
      const ending = finishing ? `, ending: ${finishing}` : '';
      context.say(`${what} of ${home} (pid ${pid}, ${version}, started ${ago(since, Date.now())}${ending})`);
      for (const { name, address, answers, details = [] } of doors) {
        const { green, red } = context.paint;
        context.say(`  ${name} on ${address}  ${answers ? green('answers') : red('does not answer')}`);
        for (const line of details) context.say(`    ${line}`);
      }
    }
  },
});

async function whatRuns({ env }: Context): Promise<Running[]> {
  const [own, bch] = [parleyHome(env), backchannelHome(env)];
  const daemon = whoIsOnDuty(`${own}/daemon`);
  const relay = whoIsOnDuty(`${bch}/relay`);
  const host = whoIsOnDuty(`${own}/host/socket`);
  return Promise.all([
    ...(daemon ? [examined('daemon', own, daemon, env)] : []),
    // The daemon's own are among its doors.
    ...(relay && relay.pid !== daemon?.pid ? [examined('relay', bch, relay, env)] : []),
    ...(host && host.pid !== daemon?.pid ? [examined('host', own, host, env)] : []),
  ]);
}

async function examined(what: Running['what'], home: string, notice: Notice, env: Env): Promise<Running> {
  const { v: _, ...facts } = notice;
  const doors = notice.doors.map(async ({ name, address }) => {
    const door = (await DOORS.find((one) => one.name === name)?.load())?.default;
    const details = await door?.details?.(address, env);
    return { name, address, answers: (await door?.answers(address)) ?? false, ...(details && { details }) };
  });
  return { what, home, ...facts, doors: await Promise.all(doors) };
}
