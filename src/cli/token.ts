import { readFileSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { Refusal } from '../protocol/refusal.ts';
import { codeOf } from '../storage/disk.ts';
import type { Option } from './command.ts';

/** A token, or an invite with many channels, is shorter than this. */
const SECRET_BYTES = 64 * 1024;
/** How long to wait before a stdin that has nothing yet is read again. */
const RETRY_MS = 10;

/** For every command that takes a token: other accounts of this machine cannot see what is in a file. */
export const TOKEN_FILE = {
  type: 'string',
  value: 'path|-',
  help: 'read the token from this file, or from stdin (-)',
} as const satisfies Option;

/** The token of a command: from `--token-file` or `--token`, else what the environment has. */
export function tokenFrom(
  { token, 'token-file': file }: { token?: string; 'token-file'?: string },
  cwd: string,
  inherited?: string,
): string | undefined {
  if (token !== undefined && file !== undefined)
    throw new Refusal('invalid_request', 'give --token-file or --token, not both');
  if (file === '-') return secretFromStdin();
  if (file !== undefined) return oneWord(textOf(resolve(cwd, file)), `--token-file ${file}`);
  return token ?? (inherited || undefined);
}

/** What a command says to the user who gave it `--token`. */
export function tokenWarning(variable: string): string {
  return `other accounts of this machine can see --token in the process list; use --token-file <path>, --token-file - (stdin) or ${variable}`;
}

/** The one word on stdin. */
export function secretFromStdin(): string {
  return oneWord(lineFromStdin(), 'stdin');
}

function oneWord(text: string, source: string): string {
  const word = text.trim();
  if (word === '') throw new Refusal('invalid_request', `${source} holds nothing; it must hold one line`);
  if (/\s/.test(word)) throw new Refusal('invalid_request', `${source} holds more than one word`);
  return word;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Refusal('invalid_request', `--token-file cannot read ${path} (${codeOf(error) ?? 'unknown'})`);
  }
}

/** Up to the end of the first line: at a terminal that is what a person pastes. */
function lineFromStdin(): string {
  const bytes = new Uint8Array(SECRET_BYTES);
  let length = 0;
  while (length < bytes.length && !bytes.subarray(0, length).includes(0x0a)) {
    const more = readSome(bytes.subarray(length));
    if (more === 0) break;
    length += more;
  }
  return new TextDecoder().decode(bytes.subarray(0, length));
}

function readSome(into: Uint8Array): number {
  for (;;) {
    try {
      return readSync(0, into);
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN')
        throw new Refusal('invalid_request', `stdin cannot be read (${codeOf(error) ?? 'unknown'})`);
      Bun.sleepSync(RETRY_MS);
    }
  }
}
