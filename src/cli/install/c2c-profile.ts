import { basename, join } from 'node:path';
import text from '../../../plugins/opencode/c2c.ts' with { type: 'text' };
import { claudeFolder } from '../../clients/claude/settings.ts';
import type { ClientName } from '../../clients/client-names.ts';
import { CODEX_EVENTS } from '../../clients/codex/signs.ts';
import { programLine } from '../../clients/hook-line.ts';
import { hookClient } from '../../clients/hook-clients.ts';
import { KIMI_EVENTS } from '../../clients/kimi/signs.ts';
import { opencodeFolder } from '../../clients/opencode/settings.ts';
import type { Hook, InstallProfile, InstallTarget } from '../../clients/settings-client.ts';
import { inShell } from '../../clients/shell-word.ts';
import { c2cHookScript } from '../../delivery/c2c-hook-script.ts';
import { quoted } from '../../delivery/hook-script.ts';
import { signScript } from '../../sessions/sign-hook.ts';
import type { ClientState } from '../../sessions/sign.ts';
import { brokerRoot, fingerprint } from '../dialects/c2c/root.ts';
import { hookFolder } from '../dialects/c2c/hook-session.ts';
import { dataFolder, signsFolder } from '../loops/folders.ts';
import { ownCommand } from '../program.ts';
import { onPath } from '../self/search-path.ts';

export interface C2cOrder {
  client: ClientName;
  /** This program as it can be started tomorrow. */
  program: string;
  /** Null: none is written. */
  alias: string | null;
  global: boolean;
  hooks: boolean;
  projectPlugin: boolean;
}

/** Clients whose settings belong to one project, so that they can say where its broker is. */
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
 * Settings that serve every repository name no broker: one is found for each session by its folder. One that the user named by a
 * variable is written in any case.
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
type OwnFile = InstallProfile['files'][number];

/** By client: what it gets besides the server. */
const FURTHER: Record<ClientName, (target: InstallTarget, order: C2cOrder) => Further> = {
  claude(target) {
    const path = join(claudeFolder(target), 'hooks/c2c-inbox-check.sh');
    const events = ['PostToolUse', 'PostToolUseFailure'];
    return { hooks: [{ ...mailHook(path, ''), events, matcher: '.*' }], files: [mailScript(target, path)] };
  },
  codex(target, { hooks }) {
    if (!hooks) return { hooks: [], files: [] };
    const path = join(dataFolder(target.env), 'hooks/codex/c2c-inbox-check.sh');
    const { registers: events, timeout } = hookClient('codex');
    const signs = signHook(target, 'codex', CODEX_EVENTS);
    const mail = { ...mailHook(path, 'codex'), events: events.filter((event) => event !== 'SessionStart'), timeout };
    return { hooks: [mail, signs.hook], files: [mailScript(target, path), signs.file] };
  },
  gemini(target) {
    const path = join(dataFolder(target.env), 'hooks/gemini/c2c-inbox-check.sh');
    const { registers: events, timeout } = hookClient('gemini');
    const mail = { ...mailHook(path, 'gemini'), events: events.filter((event) => event !== 'SessionStart'), timeout };
    return { hooks: [mail], files: [mailScript(target, path)] };
  },
  kimi(target, { program }) {
    const signs = signHook(target, 'kimi', KIMI_EVENTS);
    // At the end of a turn it is spoken to by an exit code, which the script for the others never has.
    const command = programLine(inShell(program), 'c2c hook kimi');
    const mail: Hook = {
      what: 'hook',
      command: () => command,
      events: ['UserPromptSubmit', 'Stop'],
      mark: 'c2c hook kimi',
    };
    return { hooks: [mail, signs.hook], files: [signs.file] };
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

function mailHook(script: string, client: string): Pick<Hook, 'what' | 'command' | 'mark'> {
  const command = programLine(/[^A-Za-z0-9/._-]/.test(script) ? quoted(script) : script, client);
  return { what: 'hook', command: () => command, mark: basename(script) };
}

function mailScript(target: InstallTarget, path: string): OwnFile {
  const shell = onPath('bash', target.env) ?? '/bin/bash';
  const text = c2cHookScript({ folder: hookFolder(target.env), command: [...ownCommand(), 'c2c'], shell });
  return { path, what: 'hook script', text, mode: 0o755 };
}

/** Hooks that only report the state of a session: without that nothing is ever typed into its terminal. */
function signHook(
  target: InstallTarget,
  client: string,
  events: Readonly<Record<string, ClientState | 'gone'>>,
): { hook: Hook; file: OwnFile } {
  const path = join(dataFolder(target.env), `hooks/${client}/sign.sh`);
  const text = signScript(signsFolder(target.env), events, hookFolder(target.env));
  const hook: Hook = {
    what: 'sign',
    command: (event) => programLine(quoted(path), event),
    events: Object.keys(events),
    mark: `hooks/${client}/sign.sh`,
    timeout: 5,
  };
  return { hook, file: { path, what: 'sign script', text, mode: 0o755 } };
}

/** The plugin for OpenCode. It calls `c2c` by this path: what is on OpenCode's search path may be another program. */
export function pluginText(command: string): string {
  return String(text).replace(/^const COMMAND = .*;$/m, () => `const COMMAND = ${JSON.stringify(command)};`);
}

function starter(program: string): string {
  return `#!/bin/sh\n# Written by \`c2c install opencode\`: the plugin calls c2c by this name.\nexec ${quoted(program)} c2c "$@"\n`;
}

/** Who a session of OpenCode in this folder is. spec: c2c#sidecar */
function sidecar(target: InstallTarget, alias: string | null): string {
  const folder = basename(target.project).replace(/[^A-Za-z0-9._-]/g, '_');
  const identity = {
    session_id: `opencode-${folder || 'root'}`.slice(0, 128),
    alias,
    broker_root: brokerRoot(target.env, target.project),
    broker_root_fingerprint: fingerprint(target.project),
  };
  return `${JSON.stringify(identity, null, 2)}\n`;
}

const MANNERS =
  'brave calm clear deft fair fond glad keen kind lucid merry neat plain prompt quick quiet ready sharp sound spry still sure swift warm'.split(
    ' ',
  );
const BEARERS =
  'badger beech cedar crane curlew finch fox hare hazel heron ibex kite larch lark linnet lynx maple marten osprey otter plover rowan stoat wren'.split(
    ' ',
  );

/** A name for a client in a folder: always the same one, so that a second installation changes nothing. */
export function defaultAlias(client: string, home: string, project: string): string {
  const [first = 0, second = 0] = new Bun.CryptoHasher('sha256').update([client, home, project].join('\0')).digest();
  return `${client}-${MANNERS[first % MANNERS.length]}-${BEARERS[second % BEARERS.length]}`;
}
