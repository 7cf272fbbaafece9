import { nearest } from '../../flow/nearest.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import type { Option } from '../command.ts';
import type { Context } from '../context.ts';
import { DOORS } from '../doors.ts';
import type { DoorRow, OpenDoor } from '../doors.ts';
import { goOnDuty, whoIsOnDuty } from '../duty.ts';
import { detach } from '../detach.ts';
import { closeAll, serveUntilSignal, tellWarnings } from '../serving.ts';
import { servingLog } from '../serving-log.ts';
import type { Log } from '../serving-log.ts';
import { parleyHome } from '../env.ts';

const OWN = {
  with: {
    type: 'string',
    multiple: true,
    value: 'door',
    help: `open this door: ${DOORS.map((row) => row.name).join(', ')}`,
  },
  detach: { type: 'boolean', help: 'leave it running in the background; returns when every door answers' },
} as const satisfies Record<string, Option>;

export default command({
  usage: 'up --with <door>',
  about: [
    'Runs the one daemon of your home, which keeps doors open for others, until Ctrl-C or `parley down`. Everything else works without it.',
    ...DOORS.map((row) => `--with ${row.name}: ${row.summary}.`),
    'Its further options are those of the relay (`parley relay --help`), and those of the host begin with --host-.',
  ].join('\n'),
  options: { ...Object.assign({}, ...DOORS.map((row) => row.options)), ...OWN },
  words: [0, 0],
  examples: [
    'parley up --with relay',
    'parley up --with host --detach',
    'parley up --with relay --with host',
    'parley status',
    'parley down',
  ],
  async run(context, values: Record<string, unknown> & { with?: string[]; detach?: boolean }) {
    const rows = wanted(values.with ?? []);
    if (values.detach) return detach(context, rows, values);
    const duty = await goOnDuty(`${parleyHome(context.env)}/daemon`);
    if (!duty) throw runsAlready(context);
    const log = servingLog({ json: values['json-logs'] === true, verbose: context.verbose });
    const open = async (): Promise<OpenDoor[]> => {
      const doors = await openAll(context, rows, values, log);
      duty.announce(doors.map(({ name, address }) => ({ name, address })));
      for (const door of doors) tellWarnings(door, values['json-logs'] === true ? log : null);
      tell(context, doors);
      return doors;
    };
    try {
      await serveUntilSignal(open, log, (what) => duty.finishing(what));
    } finally {
      duty.leave();
    }
  },
});

/** Opens one after the other. If one does not open, those before it are closed again. */
async function openAll(
  context: Context,
  rows: readonly DoorRow[],
  values: Record<string, unknown>,
  log: Log,
): Promise<OpenDoor[]> {
  const doors: OpenDoor[] = [];
  try {
    for (const row of rows) doors.push(await (await row.load()).default.open(context, values, log));
    return doors;
  } catch (error) {
    await closeAll(doors, () => {});
    throw error;
  }
}

function tell(context: Context, doors: OpenDoor[]): void {
  if (context.json) {
    const open = doors.map(({ name, address, about }) => ({ name, address, about }));
    return context.sayJson({ pid: process.pid, home: parleyHome(context.env), doors: open });
  }
  context.say(`up in ${parleyHome(context.env)} (pid ${process.pid})`);
  for (const { name, address, about } of doors) {
    context.say([`  ${name} on ${address}`, ...about.map((line) => `    ${line}`)].join('\n'));
  }
}

function wanted(names: readonly string[]): DoorRow[] {
  const known = DOORS.map((row) => row.name);
  const rows = [...new Set(names.flatMap((name) => name.split(',')))].map((name) => {
    const row = DOORS.find((one) => one.name === name);
    if (row) return row;
    const [near] = nearest(name, known);
    const shown = name.replace(/\p{Cc}/gu, '?').slice(0, 40);
    throw new Refusal(
      'invalid_request',
      `there is no door "${shown}"; ${near ? `did you mean --with ${near}?` : `there is ${known.join(', ')}`}`,
    );
  });
  if (rows.length > 0) return rows;
  throw new Refusal('invalid_request', `nothing to run; say which door to open: --with ${known.join(', --with ')}`);
}

function runsAlready(context: Context): Refusal {
  const home = parleyHome(context.env);
  const notice = whoIsOnDuty(`${home}/daemon`);
  if (!notice)
    return new Refusal('already_claimed', `the daemon of ${home} is just starting or ending; try again in a moment`);
  const doors = notice.doors.map(({ name, address }) => `${name} on ${address}`).join(', ');
  return new Refusal(
    'already_claimed',
    `the daemon of ${home} runs already (pid ${notice.pid}, since ${notice.since})${doors && `: ${doors}`}; \`parley down\` ends it`,
  );
}
