import { basename, join } from 'node:path';
import { claudeFolder } from '../../clients/claude/install.ts';
import { CODEX_EVENTS } from '../../clients/codex/state.ts';
import { programLine, c2cHookScript, quoted } from '../../delivery/hook-script.ts';
import { hookClient } from '../../clients/clients.ts';
import type { ClientName, Gift, Hooks, Place } from '../../clients/install-client.ts';
import { KIMI_EVENTS } from '../../clients/kimi/state.ts';
import { opencodeFolder } from '../../clients/opencode/install.ts';
import { inShell } from '../../clients/shell-word.ts';
import { clientStateScript } from '../../sessions/client-state.ts';
import type { Activity } from '../../sessions/client-state.ts';
import { brokerRoot, fingerprint } from '../dialects/c2c/root.ts';
import { hookFolder } from '../dialects/c2c/hook-session.ts';
import { dataFolder, signsFolder } from '../loops/folders.ts';
import { ownCommand } from '../program.ts';
import { onPath } from '../self/search-path.ts';
import { pluginText } from './plugin-text.ts';

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

/** What `c2c install` brings to a client. spec: c2c#install */
export function c2cGift(place: Place, order: C2cOrder): Gift {
  const { client, program, global } = order;
  const forProject = isForProject(client, global);
  return {
    by: 'c2c',
    forProject,
    server: { command: program, args: ['c2c', 'mcp'], env: serverEnv(place, order, forProject) },
    ...HOOKS[client](place, order),
  };
}

/**
 * Settings that serve every repository name no broker: one is found for each session by its folder. One that the user named by a
 * variable is written in any case.
 */
function serverEnv(place: Place, { client, alias }: C2cOrder, forProject: boolean): Record<string, string> {
  const isNamed = Boolean(place.env['C2C_MCP_BROKER_ROOT'] || place.env['C2C_BROKER_ROOT']);
  return {
    ...((forProject || isNamed) && { C2C_MCP_BROKER_ROOT: brokerRoot(place.env, place.project) }),
    ...(alias !== null && { C2C_MCP_AUTO_REGISTER_ALIAS: alias }),
    C2C_MCP_AUTO_JOIN_ROOMS: 'swarm-lounge',
    C2C_MCP_AUTO_DRAIN_CHANNEL: '0',
    ...(client === 'claude' && { C2C_MCP_CHANNEL_DELIVERY: '1' }),
    C2C_MCP_CLIENT_TYPE: client,
  };
}

type Further = Pick<Gift, 'hooks' | 'files'>;

/** By client: what it gets besides the server. */
const HOOKS: Record<ClientName, (place: Place, order: C2cOrder) => Further> = {
  claude(place) {
    const path = join(claudeFolder(place), 'hooks/c2c-inbox-check.sh');
    const events = ['PostToolUse', 'PostToolUseFailure'];
    return { hooks: [{ ...mailHook(path, ''), events, matcher: '.*' }], files: [mailScript(place, path)] };
  },
  codex(place, { hooks }) {
    if (!hooks) return { hooks: [], files: [] };
    const path = join(dataFolder(place.env), 'hooks/codex/c2c-inbox-check.sh');
    const { registers: events, timeout } = hookClient('codex');
    const signs = signHook(place, 'codex', CODEX_EVENTS);
    const mail = { ...mailHook(path, 'codex'), events: events.filter((event) => event !== 'SessionStart'), timeout };
    return { hooks: [mail, signs.hook], files: [mailScript(place, path), signs.file] };
  },
  gemini(place) {
    const path = join(dataFolder(place.env), 'hooks/gemini/c2c-inbox-check.sh');
    const { registers: events, timeout } = hookClient('gemini');
    const mail = { ...mailHook(path, 'gemini'), events: events.filter((event) => event !== 'SessionStart'), timeout };
    return { hooks: [mail], files: [mailScript(place, path)] };
  },
  kimi(place, { program }) {
    const signs = signHook(place, 'kimi', KIMI_EVENTS);
    // At the end of a turn it is spoken to by an exit code, which the script for the others never has.
    const command = programLine(inShell(program), 'c2c hook kimi');
    const mail: Hooks = {
      what: 'hook',
      command: () => command,
      events: ['UserPromptSubmit', 'Stop'],
      mark: 'c2c hook kimi',
    };
    return { hooks: [mail, signs.hook], files: [signs.file] };
  },
  opencode(place, { program, alias, projectPlugin }) {
    const command = join(dataFolder(place.env), 'bin/c2c');
    const plugins = [opencodeFolder(place), ...(projectPlugin ? [join(place.project, '.opencode')] : [])];
    const text = pluginText(command);
    return {
      hooks: [],
      files: [
        { path: command, what: 'c2c for the plugin', text: starter(program), mode: 0o755 },
        { path: join(place.project, '.opencode/c2c-plugin.json'), what: 'sidecar', text: sidecar(place, alias) },
        ...plugins.map((folder) => ({ path: join(folder, 'plugins/c2c.ts'), what: 'plugin', text })),
      ],
    };
  },
};

function mailHook(script: string, client: string): Pick<Hooks, 'what' | 'command' | 'mark'> {
  const command = programLine(/[^A-Za-z0-9/._-]/.test(script) ? quoted(script) : script, client);
  return { what: 'hook', command: () => command, mark: basename(script) };
}

function mailScript(place: Place, path: string): Gift['files'][number] {
  const shell = onPath('bash', place.env) ?? '/bin/bash';
  const text = c2cHookScript({ folder: hookFolder(place.env), command: [...ownCommand(), 'c2c'], shell });
  return { path, what: 'hook script', text, mode: 0o755 };
}

/** Hooks that only leave a word on how a session is: without one nothing is ever typed into its terminal. */
function signHook(
  place: Place,
  client: string,
  events: Readonly<Record<string, Activity | 'gone'>>,
): { hook: Hooks; file: Gift['files'][number] } {
  const path = join(dataFolder(place.env), `hooks/${client}/sign.sh`);
  const text = clientStateScript(signsFolder(place.env), events, hookFolder(place.env));
  const hook: Hooks = {
    what: 'sign',
    command: (event) => programLine(quoted(path), event),
    events: Object.keys(events),
    mark: `hooks/${client}/sign.sh`,
    timeout: 5,
  };
  return { hook, file: { path, what: 'sign script', text, mode: 0o755 } };
}

function starter(program: string): string {
  return `#!/bin/sh\n# Written by \`c2c install opencode\`: the plugin calls c2c by this name.\nexec ${quoted(program)} c2c "$@"\n`;
}

/** Who a session of OpenCode in this folder is. spec: c2c#sidecar */
function sidecar(place: Place, alias: string | null): string {
  const folder = basename(place.project).replace(/[^A-Za-z0-9._-]/g, '_');
  const identity = {
    session_id: `opencode-${folder || 'root'}`.slice(0, 128),
    alias,
    broker_root: brokerRoot(place.env, place.project),
    broker_root_fingerprint: fingerprint(place.project),
  };
  return `${JSON.stringify(identity, null, 2)}\n`;
}
