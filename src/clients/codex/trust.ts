import { readJson } from '../settings/jsonc.ts';
import { NotEditable } from '../settings/text-edit.ts';
import { inToml, readToml, tomlWithout } from '../settings/toml.ts';
import { hooksIn, tableIn } from '../settings-client.ts';

/** `paths` are the names of a hooks.json, `text` is what it holds. */
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
 * The tables by which Codex notes that its user trusts a hook with one of these commands:
 * `hooks.state."<hooks.json>:post_tool_use:<group>:<hook>"`. Those of other hooks are not named.
 */
export function trustTables(config: string, hooks: HooksFile, commands: ReadonlySet<string>): string[] {
  const ours = new Set(trustKeys(hooks, (_event, hook) => commands.has(String(hook['command']))));
  return headersIn(config).filter((header) => {
    const [first, second, key, ...rest] = pathOf(header);
    return first === 'hooks' && second === 'state' && key !== undefined && rest.length === 0 && ours.has(key);
  });
}

/** The tables below a server of ours that we did not write: Codex notes there which tools may run unasked. */
export function serverTables(config: string, server: string, ours: string): string[] {
  const written = headersIn(ours);
  return headersIn(config).filter((header) => {
    const [first, second, ...rest] = pathOf(header);
    return first === 'mcp_servers' && second === server && rest.length > 0 && !written.includes(header);
  });
}

/** config.toml without these tables, and nothing else changed. Throws NotEditable where that cannot be proven. */
export function withoutTables(config: string, headers: readonly string[]): string {
  const kept: string[] = [];
  let isGone = false;
  for (const line of config.split(/(?<=\n)/)) {
    const isHeader = /^\s*\[/.test(line);
    if (isHeader) isGone = headers.includes(HEADER.exec(line.trimEnd())?.[1] ?? '');
    // The empty line above a table goes with it; the one below belongs to the next table.
    if (!isGone || line.trim() === '') kept.push(line);
    else if (isHeader && kept.at(-1)?.trim() === '') kept.pop();
  }
  const text = withoutEmptyState(kept.join(''));
  const wanted = headers.map(pathOf).reduce(tomlWithout, readToml(config));
  if (!Bun.deepEquals(pruned(readToml(text)), pruned(wanted)))
    throw new NotEditable('holds tables of Codex that cannot be taken out safely');
  return text;
}

/** Codex may also write the table around its notes. Empty, it says nothing. */
function withoutEmptyState(text: string): string {
  if (Object.keys(tableIn(inToml(text, ['hooks', 'state']))).length > 0) return text;
  return text.replace(/(?:^|(?<=\n))(?:[ \t]*\r?\n)?\[hooks\.state\][ \t]*\r?\n(?=\s*(?:\[|$))/, '');
}

function headersIn(text: string): string[] {
  return text.split(/\r?\n/).flatMap((line) => HEADER.exec(line)?.[1] ?? []);
}

/** The keys of a header, as TOML reads them; none if it is no header. */
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

/** Tables that are empty count as absent. */
function pruned(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Date) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, pruned(inner)] as const);
  return Object.fromEntries(entries.filter(([, inner]) => !Bun.deepEquals(inner, {})));
}
