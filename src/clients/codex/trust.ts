import { readJson } from '../settings/jsonc.ts';
import { NotEditable } from '../settings/text-edit.ts';
import { inToml, readToml, tomlWithout } from '../settings/toml.ts';
import { hooksIn, tableIn } from '../settings/client-settings.ts';
import type { Env } from '../../core/env.ts';
import type { Asking } from '../../platform/authority.ts';
import { namesIn } from '../../delivery/hook-session.ts';
import { isSure } from '../../platform/authority.ts';
import { parleyHome } from '../../platform/env.ts';
import { isTerminal } from '../../platform/terminal.ts';
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Addition, ReadFile } from '../settings/changes.ts';
import { find, replace } from '../settings/file.ts';
import type { Recorded } from '../settings/manifest.ts';
import type { Applied } from '../settings/installer.ts';

/** A hooks.json: the paths that lead to it, and its text. */
interface HooksFile {
  paths: readonly string[];
  text: string;
}

/**
 * The keys under which Codex keeps its state of these hooks in config.toml: `<hooks.json>:post_tool_use:<group>:<hook>`, with the
 * indexes in the lists of hooks.json.
 */
export function trustKeys(
  { paths, text }: HooksFile,
  isOurs: (event: string, hook: Record<string, unknown>) => boolean,
): string[] {
  const keys = hooksIn(readJson(text))
    .filter(({ event, hook }) => isOurs(event, hook))
    .map(({ event, group, index }) => `${codexEvent(event)}:${group}:${index}`);
  return paths.flatMap((path) => keys.map((key) => `${path}:${key}`));
}

/** The name of an event in those keys: `PostToolUse` is `post_tool_use`. */
export function codexEvent(event: string): string {
  return event.replaceAll(/(?<=.)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

/** A line that begins a table, and what is between its brackets. */
const HEADER = /^\s*\[([^[].*)\]\s*(?:#.*)?$/;

/**
 * The headers of the tables in which Codex records that its user trusts a hook with one of these commands:
 * `hooks.state."<hooks.json>:post_tool_use:<group>:<hook>"`. Tables of other hooks are not included.
 */
export function trustTables(config: string, hooks: HooksFile, commands: ReadonlySet<string>): string[] {
  const ours = new Set(trustKeys(hooks, (_event, hook) => commands.has(String(hook['command']))));
  return headersIn(config).filter((header) => {
    const [first, second, key, ...rest] = pathOf(header);
    return first === 'hooks' && second === 'state' && key !== undefined && rest.length === 0 && ours.has(key);
  });
}

/** The tables below our server that Codex wrote: they list the tools that may run without a question. */
export function serverTables(config: string, server: string, ours: string): string[] {
  const written = headersIn(ours);
  return headersIn(config).filter((header) => {
    const [first, second, ...rest] = pathOf(header);
    return first === 'mcp_servers' && second === server && rest.length > 0 && !written.includes(header);
  });
}

/** Removes these tables from config.toml and changes nothing else. Throws NotEditable if a check of the result fails. */
export function withoutTables(config: string, headers: readonly string[]): string {
  const kept: string[] = [];
  let isGone = false;
  for (const line of config.split(/(?<=\n)/)) {
    const isHeader = /^\s*\[/.test(line);
    if (isHeader) isGone = headers.includes(HEADER.exec(line.trimEnd())?.[1] ?? '');
    // Remove the empty line above a table with it; the empty line below belongs to the next table.
    if (!isGone || line.trim() === '') kept.push(line);
    else if (isHeader && kept.at(-1)?.trim() === '') kept.pop();
  }
  const text = withoutEmptyState(kept.join(''));
  const wanted = headers.map(pathOf).reduce(tomlWithout, readToml(config));
  if (!Bun.deepEquals(pruned(readToml(text)), pruned(wanted)))
    throw new NotEditable('has tables of Codex that cannot be removed safely');
  return text;
}

/** Removes the parent table `[hooks.state]`, which Codex may also write, if it is empty. */
function withoutEmptyState(text: string): string {
  if (Object.keys(tableIn(inToml(text, ['hooks', 'state']))).length > 0) return text;
  return text.replace(/(?:^|(?<=\n))(?:[ \t]*\r?\n)?\[hooks\.state\][ \t]*\r?\n(?=\s*(?:\[|$))/, '');
}

function headersIn(text: string): string[] {
  return text.split(/\r?\n/).flatMap((line) => HEADER.exec(line)?.[1] ?? []);
}

/** The keys of a table header, parsed as TOML; none if it is not a header. */
function pathOf(header: string): string[] {
  try {
    const path: string[] = [];
    for (let table = readToml(`[${header}]\n`); ; table = tableIn(Object.values(table)[0])) {
      const [key] = Object.keys(table);
      if (key === undefined) return path;
      path.push(key);
    }
  } catch (error) {
    if (error instanceof NotEditable) return [];
    throw error;
  }
}

/** A value without its empty tables. */
function pruned(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Date) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, pruned(inner)] as const);
  return Object.fromEntries(entries.filter(([, inner]) => !Bun.deepEquals(inner, {})));
}

/**
 * Does the user trust this hook of ours in Codex? Codex records trust in config.toml, by the hook's file, its event and its two indexes. It skips
 * a hook without trust and a hook that has changed since. Only Codex can compute the hash, so a hash counts unless we recorded that the hook
 * changed after it.
 */
export function isTrusted({ path, content, isThere }: Addition, env: Env): boolean {
  const event = content.format === 'json' ? (content.at[1] ?? '') : '';
  try {
    const hooks = { paths: [path, realpathSync(path)], text: readFileSync(path, 'utf8') };
    const keys = trustKeys(
      hooks,
      (at, hook) => at === event && isThere(JSON.stringify({ hooks: { [event]: [{ hooks: [hook] }] } })),
    );
    const outdated = namesIn(outdatedFolder(env));
    return trustedHooks(path).some(({ key, hash }) => keys.includes(key) && !outdated.includes(nameOf(hash)));
  } catch {
    return false;
  }
}

/** Records the hashes of hooks that an installation has just changed: trust in the old hook is not trust in the new one. */
export function recordChangedHooks(env: Env, applied: readonly Applied[]): void {
  const changed = applied.filter(({ path, outcome }) => outcome === 'replaced' && path.endsWith('/hooks.json'));
  const hashes = changed.flatMap(({ path, what }) => {
    const event = codexEvent(/^\w+ at (\w+)$/.exec(what)?.[1] ?? '');
    return trustedHooks(path).filter(({ key }) => key.includes(`hooks.json:${event}:`));
  });
  if (hashes.length === 0) return;
  mkdirSync(outdatedFolder(env), { recursive: true, mode: 0o700 });
  for (const { hash } of hashes) writeFileSync(join(outdatedFolder(env), nameOf(hash)), '', { mode: 0o600 });
}

/** The hooks that the user of Codex trusts; none if the settings cannot be read. */
function trustedHooks(path: string): { key: string; hash: string }[] {
  try {
    const state = tableIn(inToml(readFileSync(join(dirname(path), 'config.toml'), 'utf8'), ['hooks', 'state']));
    return Object.entries(state).flatMap(([key, entry]) => {
      const { trusted_hash: hash, enabled } = tableIn(entry);
      return typeof hash === 'string' && enabled !== false ? [{ key, hash }] : [];
    });
  } catch {
    return [];
  }
}

/** One empty file for each hash. */
function outdatedFolder(env: Env): string {
  return join(parleyHome(env), 'codex-changed-hooks');
}

function nameOf(hash: string): string {
  return hash.replaceAll(/[^A-Za-z0-9]/g, '-').slice(0, 100);
}

/**
 * The tables about our hook and server that Codex wrote into one config.toml: the trust in the hook, and the tools that may run without a
 * question. Parley did not write them, so it removes them only with consent.
 */
export interface CodexTables {
  path: string;
  tables: string[];
  removed: boolean;
}

/** Finds those tables. Call it before hooks are removed: Codex names a hook by its index in hooks.json. */
export function findCodexTables(recorded: readonly Recorded[]): CodexTables[] {
  const codex = recorded.filter(({ owner }) => owner === 'codex');
  const files = codex.map(({ path }) => path).filter((path) => /\/(?:hooks\.json|config\.toml)$/.test(path));
  return [...new Set(files.map((path) => dirname(path)))].flatMap((folder) => {
    const tables = tablesIn(
      folder,
      codex.filter(({ path }) => dirname(path) === folder),
    );
    return tables.length === 0 ? [] : [{ path: join(folder, 'config.toml'), tables, removed: false }];
  });
}

function tablesIn(folder: string, recorded: readonly Recorded[]): string[] {
  try {
    const [config, hooks] = [find(join(folder, 'config.toml')), find(join(folder, 'hooks.json'))];
    const { text } = config;
    if (text === null) return [];
    const paths = [...new Set([join(folder, 'hooks.json'), hooks.target])];
    const commands = new Set(recorded.flatMap(commandsIn));
    const trust = trustTables(text, { paths, text: hooks.text ?? '{}' }, commands);
    const written = recorded.map(({ content }) => (content.format === 'toml' ? content.block : '')).join('\n');
    const servers = recorded.flatMap(({ what, content }) =>
      what === 'MCP server' && content.format === 'toml' ? content.at.slice(1, 2) : [],
    );
    return [...trust, ...servers.flatMap((server) => serverTables(text, server, written))];
  } catch (error) {
    if (error instanceof NotEditable) return [];
    throw error;
  }
}

function commandsIn({ content }: Recorded): string[] {
  if (content.format !== 'json') return [];
  const hooks = hooksIn({ hooks: { ours: [content.value] } });
  return hooks.map(({ hook }) => hook['command']).filter((command) => typeof command === 'string');
}

/** Removes these tables if the user wants it. */
export function offerRemoval(context: Asking, found: readonly CodexTables[], yes: boolean): CodexTables[] {
  return isRemovalWanted(context, found, yes) ? found.map(removeTables) : [...found];
}

/** Asks at a terminal whether to remove these tables, too. `--yes` removes them; without a terminal they stay. */
export function isRemovalWanted(context: Asking, found: readonly CodexTables[], yes: boolean): boolean {
  if (found.length === 0) return false;
  const isAsked = isUserAsked(context, yes);
  if (isAsked) for (const one of found) context.note(`Codex wrote about Parley into ${one.path}: ${headers(one)}`);
  return yes || (isAsked && isSure(context, 'Remove that, too?'));
}

/** Does Parley ask a person about these tables? The person then has read which tables they are. */
export function isUserAsked({ json }: Pick<Asking, 'json'>, yes: boolean): boolean {
  return !yes && !json && isTerminal(0);
}

/** Returns a reader of settings files that leaves out these tables. */
export function readWithout(tables: readonly CodexTables[]): ReadFile {
  return (path) => {
    const found = find(path);
    const one = tables.find((each) => each.path === path);
    return one ? { ...found, text: textWithout(one, found.text) ?? found.text } : found;
  };
}

export function removeTables(one: CodexTables): CodexTables {
  const config = find(one.path);
  const text = textWithout(one, config.text);
  if (text === null) return one;
  replace(config, text);
  return { ...one, removed: true };
}

/** Null if the tables cannot be removed safely. */
function textWithout({ tables }: CodexTables, text: string | null): string | null {
  try {
    return text === null ? null : withoutTables(text, tables);
  } catch (error) {
    if (error instanceof NotEditable) return null;
    throw error;
  }
}

/** One line for people. `isListed`: they have just read which tables. */
export function tablesLine(one: CodexTables, isListed: boolean): string {
  const which = isListed ? '' : ` ${headers(one)}`;
  return one.removed
    ? `  ${'removed'.padEnd(12)} what Codex wrote about Parley: ${one.path}${which}`
    : `  ${'left'.padEnd(12)} what Codex wrote about Parley, for you to remove: ${one.path}${which}`;
}

/** The tables of one file of hooks as one: `[hooks.state."/home/you/.codex/hooks.json:…"] (4 tables)`. */
function headers({ tables }: CodexTables): string {
  const groups = Map.groupBy(tables, (header) => header.replace(/(\.json):[^"]*"$/, '$1:…"'));
  return [...groups]
    .map(([header, all]) => (all.length > 1 ? `[${header}] (${all.length} tables)` : `[${all[0]}]`))
    .join(' ');
}
