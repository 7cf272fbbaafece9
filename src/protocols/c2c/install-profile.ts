import plugin from '../../../plugins/opencode/c2c.ts' with { type: 'text' };
import { clientStateScript } from '../../sessions/client-state.ts';
import type { Activity } from '../../sessions/client-state.ts';
import { CODEX_EVENTS } from '../../clients/codex/state.ts';
import { programLine, c2cHookScript, shellQuoted } from '../../delivery/hook-script.ts';
import { hookClient } from '../../clients/clients.ts';
import { KIMI_EVENTS } from '../../clients/kimi/state.ts';
import { repoFingerprint, brokerRoot } from './broker-root.ts';
import { dataFolder, signsFolder } from './loop-files.ts';
import { ownCommand } from '../../platform/program.ts';
import { basename, join } from 'node:path';
import { claudeFolder } from '../../clients/claude/settings.ts';
import type { ClientName } from '../../clients/client-names.ts';
import { opencodeFolder } from '../../clients/opencode/settings.ts';
import type { Hook, InstallProfile, InstallTarget } from '../../clients/settings/client-settings.ts';
import { inShell } from '../../clients/shell-word.ts';
import { hookFolder } from './hook-session.ts';
import { onPath } from '../../platform/search-path.ts';

export interface C2cOrder {
  client: ClientName;
  /** The path of this program that stays valid. */
  program: string;
  /** Null: no alias is written. */
  alias: string | null;
  global: boolean;
  hooks: boolean;
  projectPlugin: boolean;
}

/** Whether the settings of this client belong to one project, so that they can name its broker. */
export function isForProject(client: ClientName, global: boolean): boolean {
  return !global && (client === 'claude' || client === 'opencode');
}

/** What `c2c install` adds to a client. spec: c2c#install */
export function c2cProfile(target: InstallTarget, order: C2cOrder): InstallProfile {
  const { client, program, global } = order;
  const forProject = isForProject(client, global);
  return {
    by: 'c2c',
    serverName: 'c2c',
    forProject,
    server: { command: program, args: ['c2c', 'mcp'], env: serverEnv(target, order, forProject) },
    ...FURTHER[client](target, order),
    allow: [],
  };
}

/**
 * The environment of the MCP server. Settings for every repository name no broker, because each session finds it by its folder. A broker that
 * the user named by a variable is always written.
 */
function serverEnv(target: InstallTarget, { client, alias }: C2cOrder, forProject: boolean): Record<string, string> {
  const isNamed = Boolean(target.env['C2C_MCP_BROKER_ROOT'] || target.env['C2C_BROKER_ROOT']);
  return {
    ...((forProject || isNamed) && { C2C_MCP_BROKER_ROOT: brokerRoot(target.env, target.project) }),
    ...(alias !== null && { C2C_MCP_AUTO_REGISTER_ALIAS: alias }),
    C2C_MCP_AUTO_JOIN_ROOMS: 'swarm-lounge',
    C2C_MCP_AUTO_DRAIN_CHANNEL: '0',
    ...(client === 'claude' && { C2C_MCP_CHANNEL_DELIVERY: '1' }),
    C2C_MCP_CLIENT_TYPE: client,
  };
}

type Further = Pick<InstallProfile, 'hooks' | 'files'>;

/** The hooks and files that each client gets besides the server. */
const FURTHER: Record<ClientName, (target: InstallTarget, order: C2cOrder) => Further> = {
  claude: (target) =>
    mailHook(target, join(claudeFolder(target), 'hooks/c2c-inbox-check.sh'), '', {
      events: ['PostToolUse', 'PostToolUseFailure'],
      matcher: '.*',
    }),
  codex: (target, { hooks }) =>
    hooks
      ? both(registeredMailHook(target, 'codex'), stateHook(target, 'codex', CODEX_EVENTS))
      : { hooks: [], files: [] },
  gemini: (target) => registeredMailHook(target, 'gemini'),
  kimi(target, { program }) {
    // No script: at the end of a turn Kimi reads the exit code, which the script for other clients never sets.
    const command = programLine(inShell(program), 'c2c hook kimi');
    const events = ['UserPromptSubmit', 'Stop'];
    const mail = { what: 'hook', command: () => command, events, mark: 'c2c hook kimi' };
    return both({ hooks: [mail], files: [] }, stateHook(target, 'kimi', KIMI_EVENTS));
  },
  opencode(target, { program, alias, projectPlugin }) {
    const command = join(dataFolder(target.env), 'bin/c2c');
    const plugins = [opencodeFolder(target), ...(projectPlugin ? [join(target.project, '.opencode')] : [])];
    const text = pluginText(command);
    return {
      hooks: [],
      files: [
        { path: command, what: 'c2c for the plugin', text: starter(program), mode: 0o755 },
        { path: join(target.project, '.opencode/c2c-plugin.json'), what: 'sidecar', text: sidecar(target, alias) },
        ...plugins.map((folder) => ({ path: join(folder, 'plugins/c2c.ts'), what: 'plugin', text })),
      ],
    };
  },
};

function both(one: Further, other: Further): Further {
  return { hooks: [...one.hooks, ...other.hooks], files: [...one.files, ...other.files] };
}

/** The hook that shows mail, with its script. */
function mailHook(
  { env }: InstallTarget,
  path: string,
  client: string,
  at: Pick<Hook, 'events' | 'matcher' | 'timeout'>,
): Further {
  const line = programLine(/[^A-Za-z0-9/._-]/.test(path) ? shellQuoted(path) : path, client);
  const shell = onPath('bash', env) ?? '/bin/bash';
  const script = c2cHookScript({ folder: hookFolder(env), command: [...ownCommand(), 'c2c'], shell });
  return {
    hooks: [{ what: 'hook', command: () => line, mark: basename(path), ...at }],
    files: [{ path, what: 'hook script', text: script, mode: 0o755 }],
  };
}

/** The mail hook at the events of Parley's own hook, except at the start of a session. */
function registeredMailHook(target: InstallTarget, client: ClientName): Further {
  const path = join(dataFolder(target.env), `hooks/${client}/c2c-inbox-check.sh`);
  const { registers, timeout } = hookClient(client);
  return mailHook(target, path, client, { events: registers.filter((event) => event !== 'SessionStart'), timeout });
}

/** The hook that only reports the state of a session. Without a state Parley never types into its terminal. */
function stateHook(
  { env }: InstallTarget,
  client: string,
  events: Readonly<Record<string, Activity | 'gone'>>,
): Further {
  const path = join(dataFolder(env), `hooks/${client}/sign.sh`);
  const script = clientStateScript(signsFolder(env), events, hookFolder(env));
  const command = (event: string): string => programLine(shellQuoted(path), event);
  const mark = `hooks/${client}/sign.sh`;
  return {
    hooks: [{ what: 'sign', command, events: Object.keys(events), mark, timeout: 5 }],
    files: [{ path, what: 'sign script', text: script, mode: 0o755 }],
  };
}

/** The plugin for OpenCode. It calls `c2c` by this path, because a `c2c` on OpenCode's PATH may be another program. */
export function pluginText(command: string): string {
  return String(plugin).replace(/^const COMMAND = .*;$/m, () => `const COMMAND = ${JSON.stringify(command)};`);
}

function starter(program: string): string {
  return `#!/bin/sh\n# Written by \`c2c install opencode\`: the plugin calls c2c by this name.\nexec ${shellQuoted(program)} c2c "$@"\n`;
}

/** The identity of OpenCode's sessions in this folder. spec: c2c#sidecar */
function sidecar(target: InstallTarget, alias: string | null): string {
  const folder = basename(target.project).replace(/[^A-Za-z0-9._-]/g, '_');
  const identity = {
    session_id: `opencode-${folder || 'root'}`.slice(0, 128),
    alias,
    broker_root: brokerRoot(target.env, target.project),
    broker_root_fingerprint: repoFingerprint(target.project),
  };
  return `${JSON.stringify(identity, null, 2)}\n`;
}

const ADJECTIVES =
  'brave calm clear deft fair fond glad keen kind lucid merry neat plain prompt quick quiet ready sharp sound spry still sure swift warm'.split(
    ' ',
  );
const NOUNS =
  'badger beech cedar crane curlew finch fox hare hazel heron ibex kite larch lark linnet lynx maple marten osprey otter plover rowan stoat wren'.split(
    ' ',
  );

/** The default alias of a client in a folder. Always the same, so that a second installation changes nothing. */
export function defaultAlias(client: string, home: string, project: string): string {
  const [first = 0, second = 0] = new Bun.CryptoHasher('sha256').update([client, home, project].join('\0')).digest();
  return `${client}-${ADJECTIVES[first % ADJECTIVES.length]}-${NOUNS[second % NOUNS.length]}`;
}
