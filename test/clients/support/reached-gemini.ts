import { GeminiLive } from '../../../src/clients/gemini/live.ts';
import { within } from '../../support/within.ts';
import { aGemini, ENTER_MS, geminiShell } from './gemini.ts';
import { familyOf, pathWith } from './reached.ts';
import type { RunningClient } from './reached.ts';
import { client } from './where.ts';

const DEADLINE = 200_000;

/** The real Gemini CLI, in a terminal that `parley run gemini` holds. */
export const gemini: RunningClient = {
  title: 'Gemini CLI',
  word: 'gemini',
  client: client('gemini'),
  ways: ['terminal'],
  isTyped: true,
  enterMs: ENTER_MS,
  cannot: {
    compacted: 'it does not say that it has compressed the conversation',
  },
  prepare(place, model) {
    const code = aGemini({ place, model });
    return {
      env: { ...code.env, PATH: pathWith(code.env) },
      args: (asks) => (asks ? [] : ['--yolo']),
      resume: (session) => ['--resume', session],
      shell: (command) => geminiShell(command),
      guarded: (command) => geminiShell(command),
      async ready({ pid }) {
        const live = new GeminiLive(code.env);
        const isReady = async (): Promise<boolean> =>
          (await live.list()).some((one) => one.pid === pid && live.ways(one).length > 0);
        try {
          await within(DEADLINE, isReady);
        } finally {
          await live.close();
        }
      },
      async asking(terminal) {
        await terminal.shows('Allow once');
      },
      approve: (terminal) => terminal.confirm('Allow once'),
      // Nothing is typed while it works: Parley has it.
      has: (_message, machine) => machine.daemonRests(),
      draft: (text) => new RegExp(`^ [>*] ${text}`, 'm'),
      quit: (terminal) => terminal.leave('C-c', 'C-c'),
      async compact() {
        throw new Error('nothing says that Gemini CLI has compressed a conversation');
      },
      processes({ pid }) {
        return { window: [pid], all: familyOf(pid) };
      },
    };
  },
};
