import { readAlias, readSessionId } from '../../../protocols/c2c/shapes.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import type { C2c } from './c2c.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { known, readInstanceName } from './instance.ts';
import { bringUp, refuseTaken } from './managed.ts';
import type { Plan } from './managed.ts';

/** The clients that can be started, with their programs. OpenCode is reached by its plugin; a wake beside it would come twice. */
const CLIENTS: Record<string, { program: string; loop: Plan['loop'] }> = {
  claude: { program: 'claude', loop: 'wake' },
  codex: { program: 'codex', loop: 'wake' },
  opencode: { program: 'opencode', loop: 'none' },
  kimi: { program: 'kimi', loop: 'wake' },
};

/** `c2c start <client>`: a session that we keep, in a tmux session of its own. spec: c2c#instances */
export default c2cCommand({
  usage:
    'start claude|codex|opencode|kimi [-n <name>] [--alias <alias>] [--bin <program>] [--auto-join <room,…>] [--wake|--no-wake] [--pty] [--json] [-- <arguments of the client>]',
  options: {
    name: { ...TEXT, short: 'n' },
    alias: TEXT,
    'session-id': TEXT,
    bin: TEXT,
    'auto-join': TEXT,
    pty: FLAG,
    // A terminal held by a process of its own, as we start it ourselves.
    hold: TEXT,
    wake: FLAG,
    'no-wake': FLAG,
    json: { ...FLAG, short: 'j' },
  },
  words: [1, 1000],
  async run(c2c, values, [client = '', ...args]) {
    if (values.hold !== undefined) return (await import('./pty-holder.ts')).hold(c2c, JSON.parse(values.hold) as Plan);
    const plan = planFor(c2c, client, args, values);
    if (values.pty && process.stdin.isTTY && process.stdout.isTTY) {
      await refuseTaken(c2c, plan);
      return (await import('./pty-holder.ts')).hold(c2c, plan);
    }
    const instance = await bringUp(c2c, plan);
    const { name, session_id, alias, pid, terminal, tmux } = instance;
    const attach = tmux && `tmux -L ${tmux.socket} attach -t ${tmux.session}`;
    const told = { ok: true, name, client, session_id, alias, pid, terminal, loop: plan.loop };
    if (values.json) return c2c.sayJson({ ...told, ...(attach && { attach }) });
    c2c.say(`started ${name} as ${alias} (pid ${pid})${attach ? `; look at it with: ${attach}` : ` in ${terminal}`}`);
  },
});

type Values = {
  [K in 'name' | 'alias' | 'session-id' | 'bin' | 'auto-join']?: string;
} & { pty?: boolean; wake?: boolean; 'no-wake'?: boolean };

function planFor(c2c: C2c, client: string, args: string[], values: Values): Plan {
  if (c2c.env['C2C_INSTANCE_NAME'])
    throw new Refusal(
      'invalid_request',
      'this is a managed session itself; start another from a terminal outside of it',
    );
  const kind = Object.hasOwn(CLIENTS, client) ? CLIENTS[client] : undefined;
  if (!kind) {
    const shown = client.replace(/\p{Cc}/gu, '?').slice(0, 40);
    throw new Refusal('invalid_request', `no client is called "${shown}"; there is ${Object.keys(CLIENTS).join(', ')}`);
  }
  const name = readInstanceName(values.name ?? values.alias ?? `${client}-${crypto.randomUUID().slice(0, 6)}`);
  const before = known(c2c.env, name);
  const program = values.bin ?? kind.program;
  const path = Bun.which(program, { PATH: c2c.env['PATH'] ?? '', cwd: c2c.cwd });
  if (!path) throw new Refusal('not_found', `${program} is not installed here; say where it is with --bin`);
  return {
    name,
    client,
    session_id: readSessionId(values['session-id'] ?? before?.session_id ?? name),
    alias: readAlias(values.alias ?? before?.alias ?? name),
    broker_root: c2c.root,
    cwd: c2c.cwd,
    command: [path, ...args],
    created_at: before?.created_at ?? Date.now() / 1000,
    loop: values['no-wake'] ? 'none' : values.wake ? 'wake' : kind.loop,
    ...(values.pty && { pty: true }),
    ...(values['auto-join'] !== undefined && { rooms: values['auto-join'] }),
  };
}
