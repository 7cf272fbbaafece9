import type { ClientName } from '../client-names.ts';
import type { Addition } from './changes.ts';
import { isPresent } from './content.ts';
import type { SettingsContent } from './content.ts';
import { readJson } from './jsonc.ts';

/** Where to install: the user's home, the variables that move folders, and the folder that is worked in. */
export interface InstallTarget {
  home: string;
  env: Readonly<Record<string, string | undefined>>;
  project: string;
}

/** A program that a client starts for its tools. */
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
  /** A command with this part is such a hook, even if we did not add it. */
  mark: string;
  matcher?: string;
  timeout?: number;
  /** One such hook is enough, at whichever event. */
  anyEvent?: boolean;
}

/** What one of our commands adds to a client. */
export interface InstallProfile {
  by: 'parley' | 'c2c' | 'bch';
  /** The name of the server in the client's settings. */
  serverName: string;
  server: Server;
  /** The server goes into the settings of the project, where the client has such. */
  forProject: boolean;
  hooks: readonly Hook[];
  /** Files of our own. */
  files: readonly { path: string; what: string; text: string; mode?: number }[];
  /** Tools of the server that run without a dialog, with the names that they had in 0.1.0. */
  allow: readonly { tool: string; formerly?: string | undefined }[];
  /** Messages come in without a question of the client, where it has a setting for that. */
  inbound?: boolean;
  /** A section for the client's file of instructions, where it has one. */
  section?: string;
}

/** One addition, before it is known which profile makes it. */
type Part = Pick<Addition, 'path' | 'what' | 'formerly' | 'content' | 'isThere'>;

/** What widens a client: one tool of the server `parley` runs without a dialog, or messages come in without one. */
export type AllowRule = Pick<Addition, 'path' | 'content' | 'isThere'>;

/** The settings of a client: where its files are, and what each kind of addition looks like there. */
export interface ClientSettings {
  name: ClientName;
  title: string;
  /** Its programs: the client is here if its folder is, or one of these is on the search path. */
  binaries: readonly string[];
  /** The folders of its settings, as they are here, or as they would be. */
  folders(target: InstallTarget): string[];
  /** The files that hold its servers. */
  serverFiles(target: InstallTarget, forProject: boolean): string[];
  server(name: string, server: Server): SettingsContent;
  hooks(target: InstallTarget, hook: Hook): Part[];
  /** As it was seen to work with the real client; null where no rule was. */
  allowRule: ((target: InstallTarget, tool: string) => AllowRule) | null;
  /** May it ask before it runs a tool without a rule? `text` is the file of the rule. By default it may. */
  mayAsk?(text: string | null): boolean;
  /** The setting by which it lets messages in without asking its user, where it has one. */
  inboundRule?(target: InstallTarget): AllowRule;
  /** The folder from which it was seen to list skills to its model; null where none was. */
  skills(target: InstallTarget): string | null;
  /** Files of ours that bring mail to its sessions, where it runs no hooks. */
  mailFiles?(target: InstallTarget): InstallProfile['files'];
  /** Its file of instructions for the model. */
  instructions?(target: InstallTarget): string;
  /** What only the user can do, and what to expect. */
  advice(target: InstallTarget, profile: InstallProfile): string[];
}

/** What a profile adds to a client, as `owner` in the manifest. Files of our own come first: the rest may name them. */
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

/** What the setting for messages is called in the manifest. */
export const INBOUND = 'setting that lets messages in';

/** What the rule for a tool is called in the manifest. */
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

/** The variables of a server under the client's word for them; nothing where there are none. */
export function variables(word: string, env: Server['env']): Record<string, unknown> {
  return Object.keys(env).length === 0 ? {} : { [word]: env };
}

/** A hook in the shape that Claude Code began and others took over: each event lists what runs. */
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

/** All hooks of such settings: the event, the two indexes in its lists, and the hook. */
export function hooksIn(
  settings: unknown,
): { event: string; group: number; index: number; hook: Record<string, unknown> }[] {
  return Object.entries(tableIn(tableIn(settings)['hooks'])).flatMap(([event, groups]) =>
    listIn(groups).flatMap((entry, group) =>
      listIn(tableIn(entry)['hooks']).map((hook, index) => ({ event, group, index, hook: tableIn(hook) })),
    ),
  );
}

/** Is this command ours? Its words may be quoted in another way. */
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
