import { rmSync } from 'node:fs';
import { TEXT, command } from '../../core/command.ts';
import { Refusal } from '../../core/refusal.ts';
import { ago, isoOf } from '../../core/time.ts';
import { readArchive } from './archive.ts';
import { allInstances, folderOf, isUp, loopFor, otherInstances } from './instance.ts';
import type { Instance, OtherInstance } from './instance.ts';
import { loopsFolder, readLoopOrder } from './loop-files.ts';
import { whoRuns } from './loop.ts';
import { roomsJson } from './sessions.ts';
import { isSameAlias } from './shapes.ts';
import { JSON_FLAG } from './workspace.ts';
import type { C2c } from './workspace.ts';

const DAY_S = 24 * 3600;

/** `c2c instances`: lists the managed sessions, and says whether each and its loop run. spec: c2c#instances */
const instancesCommand = command({
  usage: 'instances [--json] [--prune-older-than <days>]',
  options: { json: JSON_FLAG, 'prune-older-than': TEXT },
  async run(c2c: C2c, { json, 'prune-older-than': days }) {
    if (days !== undefined) prune(c2c, Number(days));
    const rows = allInstances(c2c.env).map((instance) => rowOf(c2c, instance));
    const foreign = otherInstances(c2c.env).map(otherRow);
    if (json) return c2c.sayJson([...rows, ...foreign]);
    if (rows.length + foreign.length === 0) c2c.say('no session is managed here; start one with `c2c start <client>`');
    for (const { name, client, alias, status } of foreign)
      c2c.say(`${name}  ${client} as ${alias}  ${status}, started by the original c2c`);
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

/** The command that starts the loop again. A loop of the daemon has a stored order, so a new daemon runs it; any other needs a restart. */
function startAgain({ env }: C2c, name: string, session: string): string {
  return readLoopOrder(loopsFolder(env), session) ? 'parley up --with loops' : `c2c restart ${name}`;
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
    since: isoOf(started_at),
    session_id,
    alias,
    pid: alive ? pid : null,
    terminal,
    broker_root,
    delivery_mode: modeOf(client, instance.loop),
    loop: instance.loop === 'none' ? null : { kind: instance.loop, running: notice !== null, pid: notice?.pid ?? null },
  };
}

function otherRow({ name, client, session_id, alias, pid, broker_root, created_at }: OtherInstance) {
  return {
    name,
    client,
    status: pid === null ? ('stopped' as const) : ('running' as const),
    alive: pid !== null,
    since: isoOf(created_at),
    session_id,
    alias,
    pid,
    broker_root,
    delivery_mode: modeOf(client, 'none'),
  };
}

function modeOf(client: string, loop: Instance['loop']): string {
  return loop === 'none' && client === 'opencode' ? 'plugin' : loop;
}

function prune(c2c: C2c, days: number): void {
  if (!(days >= 0)) throw new Refusal('invalid_request', '--prune-older-than takes a number of days');
  const stopped = [
    ...allInstances(c2c.env).filter((instance) => !isUp(instance)),
    ...otherInstances(c2c.env).flatMap((other) =>
      other.pid === null ? { ...other, started_at: other.created_at } : [],
    ),
  ];
  for (const { name, started_at } of stopped) {
    if (started_at < Date.now() / 1000 - days * DAY_S)
      rmSync(folderOf(c2c.env, name), { recursive: true, force: true });
  }
}

/** `c2c status`: running sessions with their counts, rooms and managed sessions. The JSON has the fields that scripts of the original read. */
const statusCommand = command({
  usage: 'status [--json]',
  options: { json: JSON_FLAG, 'min-messages': TEXT },
  async run(c2c: C2c, { json }) {
    const sessions = await c2c.broker.sessions();
    const taken = new Map(sessions.map(({ row }) => [row.session_id, readArchive(c2c.root, row.session_id)]));
    const everything = [...taken.values()].flat();
    const alive_peers = sessions
      .filter(({ alive }) => alive === true)
      .map(({ row, lastSeen }) => ({
        alias: row.alias,
        sent: everything.filter(({ entry }) => isSameAlias(entry.from_alias, row.alias)).length,
        received: taken.get(row.session_id)?.length ?? 0,
        last_active_ts: lastSeen,
      }));
    const rooms = await roomsJson(c2c.broker);
    const managed_instances = [
      ...allInstances(c2c.env).map((one) => rowOf(c2c, one)),
      ...otherInstances(c2c.env).map(otherRow),
    ];
    const dead_peer_count = sessions.filter(({ alive }) => alive === false).length;
    if (json) {
      return c2c.sayJson({
        alive_peers,
        dead_peer_count,
        total_peer_count: sessions.length,
        managed_instances,
        rooms,
      });
    }
    c2c.say(`sessions: ${sessions.length}, of which ${alive_peers.length} run and ${dead_peer_count} ended (c2c list)`);
    for (const { alias, sent, received, last_active_ts } of alive_peers)
      c2c.say(
        `  ${alias.padEnd(24)} ${sent} sent, ${received} taken, active ${ago(isoOf(last_active_ts), Date.now())}`,
      );
    c2c.say(`rooms: ${rooms.length > 0 ? rooms.map(({ room_id }) => String(room_id)).join(', ') : 'none'}`);
    const managed = managed_instances.map(({ name, client, status }) => `${name} (${client}, ${status})`);
    c2c.say(`managed sessions: ${managed.length > 0 ? managed.join(', ') : 'none'}`);
  },
});

/** `c2c get-tmux-location`: the pane in which this shell runs, as `session:window.pane`. */
const tmuxLocationCommand = command({
  usage: 'get-tmux-location [--json]',
  options: { json: JSON_FLAG },
  async run(c2c: C2c, { json }) {
    const { TMUX: server, TMUX_PANE: pane } = c2c.env;
    if (!server || !pane) throw new Refusal('unreachable', 'this shell does not run in tmux');
    const format = '#{session_name}:#{window_index}.#{pane_index}';
    const child = Bun.spawnSync(['tmux', 'display-message', '-t', pane, '-p', format], { env: c2c.env });
    const location = child.stdout.toString().trim();
    if (!child.success || location === '')
      throw new Refusal('unreachable', `tmux: ${child.stderr.toString().trim() || 'it does not know this pane'}`);
    if (json) return c2c.sayJson({ tmux_location: location });
    c2c.say(location);
  },
});

export const commands = {
  instances: instancesCommand,
  status: statusCommand,
  'get-tmux-location': tmuxLocationCommand,
};
