import { ClaudeLiveSessions } from '../../../src/clients/claude/live.ts';
import { MessageId } from '../../../src/core/names.ts';
import { within } from '../../support/within.ts';
import { bash, say } from '../model/steps.ts';
import { aClaude, ClaudeSession } from './claude.ts';
import type { Registered } from './claude.ts';
import { pathWith } from './reached.ts';
import type { RunningClient } from './reached.ts';
import type { Terminal } from './terminal.ts';
import { client } from './where.ts';

const DEADLINE = 200_000;

/** The real Claude Code. */
export const claude: RunningClient = {
  title: 'Claude Code',
  word: 'claude',
  client: client('claude'),
  ways: ['socket'],
  prepare(place, model) {
    // It tries again after a refusal; with its usual ten times a test would wait for minutes.
    const code = aClaude({ place, model, env: { CLAUDE_CODE_MAX_RETRIES: '1' } });
    const until = (terminal: Terminal, status: Registered['status']): Promise<Registered> =>
      new ClaudeSession(code, terminal).until(status);
    return {
      env: { ...code.env, PATH: pathWith(code.env, code.program) },
      args: (asks) => ['--permission-mode', 'default', ...(asks ? [] : ['--allowedTools', 'Bash'])],
      resume: (session) => ['--resume', session],
      shell: bash,
      guarded: bash,
      async ready(terminal) {
        await until(terminal, 'idle');
      },
      async asking(terminal) {
        await until(terminal, 'waiting');
        await terminal.shows('Do you want to proceed?');
      },
      approve: (terminal) => terminal.confirm('Do you want to proceed?'),
      async has({ id }) {
        const live = new ClaudeLiveSessions(code.folder);
        const isThere = async (): Promise<boolean> => {
          const [session] = await live.list();
          return session !== undefined && (await live.proof(session, MessageId.parse(id), 0)).step === 'accepted';
        };
        try {
          await within(DEADLINE, isThere);
        } finally {
          await live.close();
        }
      },
      draft: (text) => new RegExp(`❯.${text}`),
      quit: (terminal) => terminal.leave('C-c', 'C-c'),
      async compact(terminal, scripted) {
        const before = compactions(code.transcripts());
        scripted.script(say('<summary>what was said before</summary>'));
        await terminal.submit('/compact');
        await within(DEADLINE, async () => compactions(code.transcripts()) > before);
        await until(terminal, 'idle');
      },
      processes: ({ pid }) => ({ window: [pid], all: [pid] }),
    };
  },
};

function compactions(transcripts: { lines: Record<string, unknown>[] }[]): number {
  return transcripts.flatMap(({ lines }) => lines).filter((line) => line['subtype'] === 'compact_boundary').length;
}
