import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Refusal } from '../protocol/refusal.ts';
import { parseJsonc } from './jsonc.ts';

/**
 * Notes in config.json who the user is, if nobody is noted yet or if told to, and returns who it is then.
 * The rest of the file, comments included, stays as it is.
 */
export function becomeDefault(path: string, name: string, evenIfTaken: boolean): string {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '{\n}\n';
  const current = agentIn(path, text);
  if (current !== undefined && (current === name || !evenIfTaken)) return current;
  const changed = current === undefined ? inserted(text, name) : text.replace(/("agent"\s*:\s*)"[^"]*"/, `$1"${name}"`);
  if (agentIn(path, changed) !== name) throw new Refusal('bad_config', `set "agent": "${name}" in ${path} by hand; it could not be edited safely`);
  writeFileSync(`${path}.${process.pid}`, changed, { mode: 0o600, flush: true });
  renameSync(`${path}.${process.pid}`, path);
  return name;
}

function inserted(text: string, name: string): string {
  const rest = text.slice(text.indexOf('{') + 1);
  const comma = rest.trim() === '}' ? '' : ',';
  return `${text.slice(0, text.indexOf('{') + 1)}\n  "agent": "${name}"${comma}${rest}`;
}

function agentIn(path: string, text: string): string | undefined {
  try {
    const value = parseJsonc(text) as { agent?: unknown };
    return typeof value.agent === 'string' ? value.agent : undefined;
  } catch {
    throw new Refusal('bad_config', `${path} is not readable as JSON; mend it, then run this again`);
  }
}
