import { OpenCodeLive } from '../../../src/clients/opencode/live.ts';
import { OpenCodeRecord } from '../../../src/clients/opencode/record.ts';
import type { LiveSession } from '../../../src/core/ports/live-session.ts';
import { MessageId } from '../../../src/core/names.ts';
import { within } from '../../support/within.ts';
import { call } from '../model/steps.ts';
import { anOpenCode } from './opencode.ts';
import { familyOf, pathWith } from './reached.ts';
import type { RunningClient } from './reached.ts';
import { client } from './where.ts';

const DEADLINE = 200_000;
/** What OpenCode wrote in place of a conversation. */
const SUMMARIES = `SELECT id FROM message WHERE data->>'summary' = 1 AND data->>'finish' IS NOT NULL`;

/** The real OpenCode. */
export const opencode: RunningClient = {
  title: 'OpenCode',
  word: 'opencode',
  client: client('opencode'),
  ways: ['plugin'],
  refusal: 400,
  prepare(place, model) {
    const careful = { mode: 'primary', permission: { bash: 'ask' } };
    const code = anOpenCode({ place, model, settings: { agent: { careful } } });
    const shell = (command: string) => call('bash', { command, description: 'a scripted step' });
    const becomes = async (isSo: (session: LiveSession, live: OpenCodeLive) => Promise<boolean>): Promise<void> => {
      const live = new OpenCodeLive(code.env);
      try {
        await within(DEADLINE, async () => {
          const [session] = await live.list();
          return session !== undefined && isSo(session, live);
        });
      } finally {
        await live.close();
      }
    };
    return {
      env: { ...code.env, PATH: pathWith(code.env, code.program) },
      args: (asks) => (asks ? ['--agent', 'careful'] : []),
      resume: (session) => ['-s', session],
      shell,
      guarded: shell,
      async ready(terminal) {
        await becomes(async ({ status }) => status === 'idle');
        await code.ready(terminal);
      },
      async asking(terminal) {
        await terminal.shows('Permission required');
      },
      approve: (terminal) => terminal.confirm('Permission required'),
      has: ({ id }) =>
        becomes(async (session, live) => (await live.proof(session, MessageId.parse(id))).step === 'accepted'),
      draft: (text) => new RegExp(`┃\\s+${text}`),
      async quit(terminal) {
        await terminal.keys('C-c');
      },
      async compact(terminal) {
        const record = new OpenCodeRecord(`${place.home}/.local/share/opencode/opencode.db`);
        const summaries = (): number => record.rows(SUMMARIES).length;
        const before = summaries();
        await terminal.type('/compact');
        await terminal.confirm('Compact session');
        await within(DEADLINE, async () => summaries() > before);
        record.close();
        await becomes(async ({ status }) => status === 'idle');
      },
      processes({ pid }) {
        const all = familyOf(pid);
        return { window: all, all };
      },
    };
  },
};
