import { readFileSync } from 'node:fs';
import { call } from '../model/steps.ts';
import { aCodex } from './codex.ts';
import { familyOf, pathWith } from './reached.ts';
import type { RunningClient } from './reached.ts';
import { client } from './where.ts';

const LONG_MS = 60_000;

/** The real Codex. */
export const codex: RunningClient = {
  title: 'Codex',
  word: 'codex',
  client: client('codex'),
  ways: ['rpc'],
  prepare(place, model) {
    const code = aCodex({ place, model });
    const shell = (cmd: string, more = {}) => call('exec_command', { cmd, yield_time_ms: LONG_MS, ...more });
    return {
      env: { ...code.env, PATH: pathWith(code.env) },
      args: (asks) => (asks ? ['-a', 'on-request', '-s', 'read-only'] : []),
      resume: (session) => ['resume', session],
      shell,
      guarded: (cmd) => shell(cmd, { sandbox_permissions: 'require_escalated' }),
      async ready(terminal) {
        await code.ready(terminal);
        await terminal.until((screen) => !screen.includes('esc to interrupt'), 'show that it rests');
      },
      async asking(terminal) {
        await terminal.shows('Would you like to run');
      },
      approve: (terminal) => terminal.confirm('Would you like to run'),
      async has({ id }, machine) {
        // Codex tells nobody of a prompt that waits for its running tool.
        await machine.until(id, 'offered');
        await machine.daemonRests(daemonOf(code.folder));
      },
      draft: (text) => `› ${text}`,
      quit: (terminal) => terminal.leave('C-c'),
      async compact(terminal) {
        await terminal.submit('/compact');
        await terminal.shows('Context compacted');
      },
      processes({ pid }) {
        const window = familyOf(pid);
        return { window, all: [...window, daemonOf(code.folder)] };
      },
    };
  },
};

function daemonOf(folder: string): number {
  return (JSON.parse(readFileSync(`${folder}/app-server-daemon/daemon.pid`, 'utf8')) as { pid: number }).pid;
}
