import { NotEditable } from '../clients/settings/text-edit.ts';
import { mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Refusal } from '../core/refusal.ts';
import { explained, isMissing } from '../core/disk.ts';
import { locked } from '../platform/lock-file.ts';
import { parseJsonc, withMember } from '../clients/settings/jsonc.ts';

/**
 * Notes in config.json who the user is, if nobody is noted yet or if told to, and returns who it is then.
 * The rest of the file, comments included, stays as it is.
 */
export function becomeDefault(path: string, name: string, evenIfTaken: boolean): string {
  return changing(path, (text) => {
    const current = agentIn(path, text);
    if (current !== undefined && (current === name || !evenIfTaken)) return [text, current];
    return [changed(path, text, 'agent', name), name];
  });
}

/** Notes that nobody is the default any more, if it was this agent. */
export function ceaseDefault(path: string, name: string): boolean {
  return changing(path, (text) => {
    const was = agentIn(path, text) === name;
    return [was ? changed(path, text, 'agent', undefined) : text, was];
  });
}

/** Sets one key of a config file, or removes it if the value is undefined. Everything else stays byte for byte. */
export function changeSetting(path: string, key: string, value: unknown): void {
  changing(path, (text) => [changed(path, text, key, value), undefined]);
}

/** Reads, changes and replaces the file while no other process of ours does. A text that stays the same is not written. */
function changing<T>(path: string, change: (text: string) => [text: string, result: T]): T {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return locked(`${dirname(path)}/config.lock`, () => {
      const text = textOf(path) ?? '{\n}\n';
      const [after, result] = change(text);
      if (after !== text) replace(path, after);
      return result;
    });
  } catch (error) {
    throw explained(error, path, 'nothing was changed');
  }
}

function changed(path: string, text: string, key: string, value: unknown): string {
  try {
    return withMember(text, key, value);
  } catch (error) {
    if (error instanceof SyntaxError) throw unreadable(path, error);
    if (!(error instanceof NotEditable)) throw error;
    const what = value === undefined ? `remove "${key}" from` : `set "${key}": ${JSON.stringify(value)} in`;
    throw new Refusal('bad_config', `${what} ${path} by hand; it could not be edited safely (${error.message})`);
  }
}

function agentIn(path: string, text: string): string | undefined {
  try {
    const value = parseJsonc(text) as { agent?: unknown } | null;
    return typeof value?.agent === 'string' ? value.agent : undefined;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): Refusal {
  const why = error instanceof Error ? error.message : String(error);
  return new Refusal('bad_config', `${path} is not readable as JSON (${why}); correct it, then run this again`);
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Whole or not at all, for its owner only. People link such files to where they keep their own: the link stays. */
function replace(path: string, text: string): void {
  const target = textOf(path) === undefined ? path : realpathSync(path);
  const draft = `${target}.${process.pid}`;
  try {
    writeFileSync(draft, text, { mode: 0o600, flush: true });
    renameSync(draft, target);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}
