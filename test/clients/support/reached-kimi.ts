import { KimiLive } from '../../../src/clients/kimi/live.ts';
import { within } from '../../support/within.ts';
import { bash, say } from '../model/steps.ts';
import { aKimi } from './kimi.ts';
import { familyOf, pathWith } from './reached.ts';
import type { RunningClient } from './reached.ts';
import { client } from './where.ts';

const DEADLINE = 200_000;

/** The real Kimi, in a terminal that `parley run kimi` holds. */
export const kimi: RunningClient = {
  title: 'Kimi',
  word: 'kimi',
  client: client('kimi'),
  ways: ['terminal'],
  isTyped: true,
  prepare(place, model) {
    // Otherwise it asks a model that refuses up to ten times.
    const code = aKimi({ place, model, settings: '[loop_control]\nmax_attempts_per_step = 1\n' });
    code.trustProject();
    return {
      env: { ...code.env, PATH: pathWith(code.env) },
      args: (asks) => (asks ? [] : ['--yolo']),
      resume: (session) => ['-S', session],
      shell: bash,
      guarded: bash,
      async ready({ pid }) {
        const live = new KimiLive(code.env);
        const isReady = async (): Promise<boolean> =>
          (await live.list()).some((one) => one.pid === pid && live.ways(one).length > 0);
        try {
          await within(DEADLINE, isReady);
        } finally {
          await live.close();
        }
      },
      async asking(terminal) {
        await terminal.shows('Approve once');
      },
      approve: (terminal) => terminal.confirm('Approve once'),
      // Nothing is typed while it works: Parley has it.
      has: (_message, machine) => machine.daemonRests(),
      draft: (text) => `> ${text}`,
      quit: (terminal) => terminal.leave('C-c', 'C-c'),
      async compact(terminal, scripted) {
        const compactions = (): number => code.wires().split('{"type":"context.apply_compaction"').length;
        const before = compactions();
        scripted.script(say('what was said before'));
        await terminal.submit('/compact');
        await within(DEADLINE, async () => compactions() > before);
      },
      processes({ pid }) {
        return { window: [pid], all: familyOf(pid) };
      },
    };
  },
};
