import { rmSync } from 'node:fs';
import { Refusal } from '../../../protocol/refusal.ts';
import { loopsFolder } from '../../loops/folders.ts';
import { whoRuns } from '../../loops/run.ts';
import { wantedFor } from '../../loops/wanted.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import type { C2c } from './c2c.ts';
import { all, folderOf, isUp } from './instance.ts';
import type { Instance } from './instance.ts';
import { loopFor } from './managed.ts';

const DAY_S = 24 * 3600;

/** `c2c instances`: the sessions that we keep, and whether each and its loop run. spec: c2c#instances */
export default c2cCommand({
  usage: 'instances [--json] [--prune-older-than <days>]',
  options: { json: { ...FLAG, short: 'j' }, 'prune-older-than': TEXT },
  words: [0, 0],
  async run(c2c, { json, 'prune-older-than': days }) {
    if (days !== undefined) prune(c2c, Number(days));
    const rows = all(c2c.env).map((instance) => rowOf(c2c, instance));
    if (json) return c2c.sayJson(rows);
    if (rows.length === 0) c2c.say('no session is kept here; start one with `c2c start <client>`');
    for (const { name, client, session_id, alias, alive, since, terminal, loop } of rows) {
      const looped =
        loop && (alive || loop.running) ? `, ${loop.kind} loop ${loop.running ? 'runs' : 'does not run'}` : '';
      const next =
        alive && loop?.running === false ? ` (to have it again: \`${startAgain(c2c, name, session_id)}\`)` : '';
      const state = alive ? `runs since ${since} in ${terminal}` : `stopped; last started ${since}`;
      c2c.say(`${name}  ${client} as ${alias}  ${state}${looped}${next}`);
    }
  },
});

/** A daemon that was ended left word of the loop, and takes it up again; only a new start brings one that ran alone. */
function startAgain({ env }: C2c, name: string, session: string): string {
  return wantedFor(loopsFolder(env), session) ? 'parley up --with loops' : `c2c restart ${name}`;
}

function rowOf(c2c: C2c, instance: Instance) {
  const { name, client, session_id, alias, pid, terminal, started_at, broker_root } = instance;
  const alive = isUp(instance);
  const notice = instance.loop === 'none' ? null : whoRuns(c2c.env, loopFor(instance));
  return {
    name,
    client,
    status: alive ? ('running' as const) : ('stopped' as const),
    alive,
    since: new Date(started_at * 1000).toISOString(),
    session_id,
    alias,
    pid: alive ? pid : null,
    terminal,
    broker_root,
    delivery_mode: instance.loop,
    loop: instance.loop === 'none' ? null : { kind: instance.loop, running: notice !== null, pid: notice?.pid ?? null },
  };
}

function prune(c2c: C2c, days: number): void {
  if (!(days >= 0)) throw new Refusal('invalid_request', '--prune-older-than takes a number of days');
  for (const instance of all(c2c.env)) {
    if (isUp(instance) || instance.started_at > Date.now() / 1000 - days * DAY_S) continue;
    rmSync(folderOf(c2c.env, instance.name), { recursive: true, force: true });
  }
}
