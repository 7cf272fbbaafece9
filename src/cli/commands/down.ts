import { command } from '../command.ts';
import { whoIsOnDuty } from '../duty.ts';
import type { Notice } from '../duty.ts';
import type { Context } from '../context.ts';
import { durationFrom } from '../input.ts';
import { backchannelHome, parleyHome } from '../env.ts';
import { Refusal } from '../../protocol/refusal.ts';

const DEFAULT_PATIENCE = '30s';

export default command({
  usage: 'down',
  about:
    'Asks the daemon of your home to end, and waits until it has: it takes nothing new, finishes the requests in hand, and writes what\n' +
    'it has accepted. With nothing to end it says so and ends with 0.',
  options: {
    patience: { type: 'string', value: 'span', help: `how long to wait for it (default ${DEFAULT_PATIENCE})` },
  },
  words: [0, 0],
  examples: ['parley down', 'parley down --patience 2m'],
  async run(context, values) {
    const patience = durationFrom(values.patience ?? DEFAULT_PATIENCE);
    const home = parleyHome(context.env);
    const notice = whoIsOnDuty(`${home}/daemon`);
    if (!notice) {
      if (context.json) return context.sayJson({ was: null });
      context.say(`nothing runs in ${home}`);
      const alone = whoIsOnDuty(`${backchannelHome(context.env)}/relay`);
      if (alone)
        context.note(`a relay runs by itself (pid ${alone.pid}); end it where it runs, or with: kill ${alone.pid}`);
      return;
    }
    const began = Date.now();
    process.kill(notice.pid, 'SIGTERM');
    const waitedFor = await untilGone(home, notice, began + patience, (what) => {
      if (!context.json) context.note(`waiting for ${what}`);
    });
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    if (context.json) return context.sayJson({ was: notice, seconds: Number(seconds), waitedFor });
    const doors = notice.doors.map(({ name, address }) => `${name} on ${address}`).join(', ');
    context.say(`down after ${seconds} s: ${doors || 'no door was open'} (pid ${notice.pid})`);
    await tellUnwoken(context, notice);
  },
});

/** What ran in there and is still wanted runs nowhere now. */
async function tellUnwoken(context: Context, { doors }: Notice): Promise<void> {
  const folder = doors.find(({ name }) => name === 'loops')?.address;
  if (folder === undefined) return;
  const { allWanted } = await import('../loops/wanted.ts');
  const sessions = allWanted(folder).map(({ session }) => session);
  if (sessions.length > 0)
    context.note(`no longer woken: ${sessions.join(', ')}; \`parley up --with loops --detach\` wakes them again`);
}

/** Returns what it had to finish, each told as soon as it is seen. */
async function untilGone(
  home: string,
  { pid, holder }: Notice,
  end: number,
  telling: (what: string) => void,
): Promise<string[]> {
  const told: string[] = [];
  for (;;) {
    const now = whoIsOnDuty(`${home}/daemon`);
    if (now?.holder !== holder) return told;
    const what = now.finishing;
    if (what !== undefined && told.at(-1) !== what) {
      told.push(what);
      telling(what);
    }
    if (Date.now() > end) {
      throw new Refusal(
        'already_claimed',
        `pid ${pid} has not ended yet${what ? ` (${what})` : ''}; wait with \`parley down --patience 5m\`, or end it at once: kill ${pid}`,
      );
    }
    await Bun.sleep(20);
  }
}
