import type { ClientName } from '../client-names.ts';
import type { Addition } from './changes.ts';
import { isPresent } from './content.ts';
import type { SettingsContent } from './content.ts';
import { readJson } from './jsonc.ts';

/** Where to install: the user's home, the environment (it can move folders), and the project's folder. */
export interface InstallTarget {
  home: string;
  env: Readonly<Record<string, string | undefined>>;
  project: string;
}

/** An MCP server that a client starts. */
export interface Server {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

/** A command that a client runs at some of its events. */
export interface Hook {
  what: string;
  command: (event: string) => string;
  events: readonly string[];
  /** A command that contains this text is such a hook, even if we did not add it. */
  mark: string;
  matcher?: string;
  timeout?: number;
  /** One such hook at any event is enough. */
  anyEvent?: boolean;
}

/** Everything that one of our install commands adds to a client. */
export interface InstallProfile {
  by: 'parley' | 'c2c' | 'bch';
  /** The name of the server in the client's settings. */
  serverName: string;
  server: Server;
  /** The server goes into the settings of the project, if the client has such settings. */
  forProject: boolean;
  hooks: readonly Hook[];
  /** Files of our own. */
  files: readonly { path: string; what: string; text: string; mode?: number }[];
  /** Tools of the server that run without a dialog. `formerly`: the tool's name in 0.1.0. */
  allow: readonly { tool: string; formerly?: string | undefined }[];
  /** Lets messages in without a dialog, if the client has a setting for that. */
  inbound?: boolean;
  /** A section for the client's instructions file, if it has one. */
  section?: string;
}

/** An addition without its profile and owner. */
type Part = Pick<Addition, 'path' | 'what' | 'formerly' | 'content' | 'isThere'>;

/** A permission in a client's settings: one tool of the server `parley` runs, or messages come in, without a dialog. */
export type AllowRule = Pick<Addition, 'path' | 'content' | 'isThere'>;

/** The settings of a client: where its files are, and what each kind of addition looks like there. */
export interface ClientSettings {
  name: ClientName;
  title: string;
  /** Its programs. The client is installed if one of them is on the PATH, or if its settings folder exists. */
  binaries: readonly string[];
  /** The folders of its settings, whether they exist or not. */
  folders(target: InstallTarget): string[];
  /** The files that hold its servers. */
  serverFiles(target: InstallTarget, forProject: boolean): string[];
  server(name: string, server: Server): SettingsContent;
  hooks(target: InstallTarget, hook: Hook): Part[];
  /** The rule that lets a tool run without a dialog, as it worked with the real client; null if none was seen to work. */
  allowRule: ((target: InstallTarget, tool: string) => AllowRule) | null;
  /** Whether the client may ask before it runs a tool without a rule. `text` is the file of the rule. True by default. */
  mayAsk?(text: string | null): boolean;
  /** The setting that lets messages in without a dialog, if the client has one. */
  inboundRule?(target: InstallTarget): AllowRule;
  /** The folder of skills that the real client listed to its model; null if none was seen. */
  skills(target: InstallTarget): string | null;
  /** Files of ours that deliver mail to its sessions, if the client runs no hooks. */
  mailFiles?(target: InstallTarget): InstallProfile['files'];
  /** Its instructions file for the model. */
  instructions?(target: InstallTarget): string;
  /** Notes for the user: what only the user can do, and what to expect. */
  advice(target: InstallTarget, profile: InstallProfile): string[];
}

/** The additions of a profile to a client, with `owner` for the manifest. Files of our own come first, because other additions may name them. */
export function additionsOf(
  client: ClientSettings,
  target: InstallTarget,
  profile: InstallProfile,
  owner: string = client.name,
): Addition[] {
  const { by, files, hooks, server, serverName, forProject, allow, section, inbound = false } = profile;
  const instructions = section === undefined ? undefined : client.instructions?.(target);
  const parts: Part[] = [
    ...files.map(({ path, what, text, mode }) =>
      part(path, what, { format: 'whole', text, ...(mode !== undefined && { mode }) }),
    ),
    ...hooks.flatMap((hook) => client.hooks(target, hook)),
    ...client
      .serverFiles(target, forProject)
      .map((path) => part(path, 'MCP server', client.server(serverName, server))),
    ...allow.flatMap(({ tool, formerly }) =>
      client.allowRule === null
        ? []
        : [
            {
              what: ruleFor(tool),
              ...(formerly !== undefined && { formerly: ruleFor(formerly) }),
              ...client.allowRule(target, tool),
            },
          ],
    ),
    ...(inbound && client.inboundRule ? [{ what: INBOUND, ...client.inboundRule(target) }] : []),
  ];
  if (section !== undefined && instructions !== undefined)
    parts.push({
      path: instructions,
      what: 'section on mail',
      content: { format: 'markdown', block: section },
      isThere: (text) => /backchannel/i.test(text),
    });
  return parts.map((one) => ({ by, owner, ...one }));
}

/** The name of the inbound setting in the manifest. */
export const INBOUND = 'setting that lets messages in';

/** The name of a tool's allow rule in the manifest. */
export function ruleFor(tool: string): string {
  return `allow rule for ${tool}`;
}

function part(path: string, what: string, content: SettingsContent): Part {
  return { path, what, content, isThere: (text) => isPresent(content, text) };
}

/** A value at a path of a JSON file. */
export function member(at: string[], value: unknown): SettingsContent {
  return { format: 'json', at, append: false, value };
}

/** The environment of a server under the client's key for it; empty if there are no variables. */
export function variables(word: string, env: Server['env']): Record<string, unknown> {
  return Object.keys(env).length === 0 ? {} : { [word]: env };
}

/** A hook in Claude Code's JSON shape, which other clients use, too: each event has a list of hooks. */
export function hooksInJson(path: string, hook: Hook): Part[] {
  const { what, command, events, mark, matcher, timeout, anyEvent = false } = hook;
  return events.map((event) => {
    const entry = { type: 'command', command: command(event), ...(timeout !== undefined && { timeout }) };
    const value = { ...(matcher !== undefined && { matcher }), hooks: [entry] };
    return {
      path,
      what: anyEvent ? what : `${what} at ${event}`,
      content: { format: 'json', at: ['hooks', event], append: true, value },
      isThere: (text) =>
        hooksIn(readJson(text)).some((one) => (anyEvent || one.event === event) && isMarked(one.hook['command'], mark)),
    };
  });
}

/** All hooks in settings of that shape: the event, the indexes of the group and of the hook in it, and the hook. */
export function hooksIn(
  settings: unknown,
): { event: string; group: number; index: number; hook: Record<string, unknown> }[] {
  return Object.entries(tableIn(tableIn(settings)['hooks'])).flatMap(([event, groups]) =>
    listIn(groups).flatMap((entry, group) =>
      listIn(tableIn(entry)['hooks']).map((hook, index) => ({ event, group, index, hook: tableIn(hook) })),
    ),
  );
}

/** Whether a command has this mark. Ignores quotes, because another program may have quoted it differently. */
export function isMarked(command: unknown, mark: string): boolean {
  const plain = (text: string): string => text.replaceAll(/['"]/g, '');
  return typeof command === 'string' && plain(command).includes(plain(mark));
}

export function tableIn(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
