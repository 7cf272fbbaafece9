import { dirname, join } from 'node:path';
import { serverTables, trustTables, withoutTables } from '../../clients/codex/written-since.ts';
import { tableIn } from '../../clients/install-client.ts';
import type { Look } from '../../clients/settings/apply.ts';
import { find, replace } from '../../clients/settings/file.ts';
import type { Noted } from '../../clients/settings/manifest.ts';
import { NotEditable } from '../../clients/settings/not-editable.ts';
import { isSure } from '../../sessions/consent.ts';
import type { Context } from '../context.ts';
import { isTerminal } from '../../platform/terminal.ts';

/**
 * What Codex wrote about our hook and server into one config.toml: that its user trusts the hook, and which tools may run unasked.
 * Parley did not write it, so it goes only with consent.
 */
export interface CodexTables {
  path: string;
  tables: string[];
  removed: boolean;
}

/** Finds those tables. Ask before hooks are removed: Codex names a hook by its place in hooks.json. */
export function findCodexTables(noted: readonly Noted[]): CodexTables[] {
  const codex = noted.filter(({ owner }) => owner === 'codex');
  const folders = [...new Set(codex.filter(({ path }) => isSettings(path)).map(({ path }) => dirname(path)))];
  return folders.flatMap((folder) => {
    const tables = tablesIn(
      folder,
      codex.filter(({ path }) => dirname(path) === folder),
    );
    return tables.length === 0 ? [] : [{ path: join(folder, 'config.toml'), tables, removed: false }];
  });
}

function isSettings(path: string): boolean {
  return path.endsWith('/hooks.json') || path.endsWith('/config.toml');
}

function tablesIn(folder: string, noted: readonly Noted[]): string[] {
  try {
    const [config, hooks] = [find(join(folder, 'config.toml')), find(join(folder, 'hooks.json'))];
    if (config.text === null) return [];
    const paths = [...new Set([join(folder, 'hooks.json'), hooks.target])];
    const trust = trustTables(config.text, { paths, text: hooks.text ?? '{}' }, new Set(noted.flatMap(commandsIn)));
    return [...trust, ...belowServers(config.text, noted)];
  } catch (error) {
    if (error instanceof NotEditable) return [];
    throw error;
  }
}

function belowServers(config: string, noted: readonly Noted[]): string[] {
  const contents = noted.map(({ content }) => content).filter(({ format }) => format === 'toml');
  const written = contents.map((content) => ('block' in content ? content.block : '')).join('\n');
  const servers = noted.flatMap(({ what, content }) =>
    what === 'MCP server' && content.format === 'toml' ? content.at.slice(1, 2) : [],
  );
  return servers.flatMap((server) => serverTables(config, server, written));
}

type Asking = Pick<Context, 'json' | 'note'>;

/** Removes these tables if the user wants it. */
export function offerRemoval(context: Asking, found: readonly CodexTables[], yes: boolean): CodexTables[] {
  return isRemovalWanted(context, found, yes) ? found.map(removeTables) : [...found];
}

/** Asks at a terminal whether these tables go, too. `--yes` includes them; without a terminal they stay. */
export function isRemovalWanted(context: Asking, found: readonly CodexTables[], yes: boolean): boolean {
  if (found.length === 0) return false;
  const isAsked = !yes && !context.json && isTerminal(0);
  if (isAsked) for (const one of found) context.note(`Codex wrote about Parley into ${one.path}: ${headers(one)}`);
  return yes || (isAsked && isSure(context, 'Remove that, too?'));
}

/** Reads a settings file as it is without these tables. */
export function withoutThem(tables: readonly CodexTables[]): Look {
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

/** Null where the tables cannot be taken out. */
function textWithout({ tables }: CodexTables, text: string | null): string | null {
  try {
    return text === null ? null : withoutTables(text, tables);
  } catch (error) {
    if (error instanceof NotEditable) return null;
    throw error;
  }
}

/** One line for people on what became of it. */
export function tablesLine(one: CodexTables): string {
  return one.removed
    ? `  ${'removed'.padEnd(12)} what Codex wrote about Parley: ${one.path} ${headers(one)}`
    : `  ${'left'.padEnd(12)} what Codex wrote about Parley, for you to remove: ${one.path} ${headers(one)}`;
}

function headers({ tables }: CodexTables): string {
  return tables.map((header) => `[${header}]`).join(' ');
}

function commandsIn({ content }: Noted): string[] {
  const hooks = content.format === 'json' ? tableIn(content.value)['hooks'] : [];
  const commands = Array.isArray(hooks) ? hooks.map((hook) => tableIn(hook)['command']) : [];
  return commands.filter((command) => typeof command === 'string');
}
