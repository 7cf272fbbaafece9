import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hookScript } from '../../src/delivery/hook-script.ts';
import { AgentName } from '../../src/core/names.ts';
import { PARLEY, Program } from '../support/program.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import { addWaiting } from './mailroom.ts';

const SESSION = '5e551011-0000-4000-8000-000000000002';

/** A hook runs after every tool call: it may start the program only if something came that is for this session. */
export const hooks: Drill = {
  name: 'a hook starts the program only for new mail',
  async run(long) {
    const [calls, others, arrivals] = long ? [100, 1000, 5] : [20, 100, 2];
    const program = await new Program().init('bob', 'alice');
    const home = `${program.home}/.parley`;
    await addWaiting(home, AgentName.parse('bob'), others, 'quiet');
    await addWaiting(home, AgentName.parse('bob'), others, 'new', { scope: 'git@example.org:somewhere/else.git' });
    const hook = countingHook(home);
    call(hook, program, 'SessionStart');
    const atStart = startsOf(home);
    let said = '';
    for (let n = 0; n < calls; n += 1) {
      if (n % (calls / arrivals) === 5) await program.run(['send', '@bob', `arrival ${n}`], { as: 'alice' });
      said += call(hook, program, 'PostToolUse');
    }
    const starts = startsOf(home) - atStart;
    const shown = said.match(/arrival \d+/g)?.length ?? 0;
    const faults = new Faults();
    // One to say it, and one to settle it at the next event.
    faults.expect(starts <= 2 * arrivals, `the program was started ${starts} times for ${arrivals} arrivals`);
    faults.expect(shown === arrivals, `${shown} of ${arrivals} arrivals were shown`);
    return {
      counts: { calls, quiet: others, 'scoped elsewhere': others, arrivals, starts, shown },
      faults: faults.found,
    };
  },
};

/** The real script, with a program that counts how often it is started. */
function countingHook(home: string): string {
  const counting = `${home}/counting`;
  writeFileSync(counting, `#!/bin/sh\necho started >>'${home}/starts'\nexec '${PARLEY}' "$@"\n`);
  chmodSync(counting, 0o700);
  mkdirSync(`${home}/sessions`, { recursive: true });
  writeFileSync(`${home}/hook`, hookScript(home, [counting]));
  return `${home}/hook`;
}

function call(hook: string, program: Program, name: string): string {
  const event = { session_id: SESSION, cwd: program.home, hook_event_name: name, tool_name: 'Bash' };
  const shell = Bun.which('dash') ?? 'sh';
  const stdin = Buffer.from(`${JSON.stringify(event)}\n`);
  const done = Bun.spawnSync([shell, hook, 'claude'], { env: program.env, cwd: program.home, stdin });
  if (done.exitCode !== 0) throw new Error(`the hook ended with ${done.exitCode}: ${done.stderr.toString()}`);
  return done.stdout.toString();
}

function startsOf(home: string): number {
  return existsSync(`${home}/starts`) ? readFileSync(`${home}/starts`, 'utf8').split('\n').length - 1 : 0;
}
