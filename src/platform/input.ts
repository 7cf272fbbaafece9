import { readFileSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { isBlank } from '../core/message.ts';
import { Refusal } from '../core/refusal.ts';
import { codeOf } from '../core/disk.ts';
import { isTerminal } from './terminal.ts';

/** The body from the command line, or from stdin if there are no words or only `-`. Reads from stdin at most what a body may have. */
export async function bodyFrom(words: string[], limit: number): Promise<string> {
  if (words.length > 0 && !(words.length === 1 && words[0] === '-')) return words.join(' ');
  if (isTerminal(0)) throw new Refusal('invalid_request', 'give the text on the command line, or pipe it in');
  const body = utf8(await fromStdin(limit)).replace(/\n$/, '');
  // A closed stdin is no text: many programs start commands that way.
  if (body === '') throw emptyText();
  return body;
}

/** The body of one of Parley's own messages, which must not be blank. `bodyFrom` accepts an empty word, as other programs' documents allow. */
export async function textFrom(words: string[], limit: number): Promise<string> {
  if (words.length > 1 && (words[0] === '-' || words.at(-1) === '-'))
    throw new Refusal(
      'invalid_request',
      '- reads the text from stdin, so leave out the other words; to send a - as text, put the whole text in quotes',
    );
  const body = await bodyFrom(words, limit);
  if (isBlank(body)) throw emptyText();
  return body;
}

function emptyText(): Refusal {
  return new Refusal('invalid_request', 'the text is empty; give it on the command line, or pipe it in');
}

async function fromStdin(limit: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let left = limit;
  try {
    for await (const piece of Bun.stdin.stream()) {
      pieces.push(piece);
      left -= piece.length;
      // One more byte is allowed: a newline at the end is not part of the body.
      if (left < -1) break;
    }
  } catch (error) {
    throw new Refusal('invalid_request', `the text could not be read from stdin (${codeOf(error) ?? String(error)})`);
  }
  if (left < -1)
    throw new Refusal(
      'too_large',
      `the text has more than ${limit} bytes, which is the limit; write it to a file and send its path instead`,
    );
  return Buffer.concat(pieces);
}

/** Refuses other encodings: characters would be replaced without a warning. */
function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Refusal('invalid_request', 'the text is not UTF-8; convert it first');
  }
}

/** Longer than any token, and than any invite with many channels. */
const SECRET_BYTES = 64 * 1024;
/** The pause before an empty, non-blocking stdin is read again. */
const RETRY_MS = 10;

/** The option of every command that takes a token: other accounts of this machine cannot read the file. */
export const TOKEN_FILE = {
  type: 'string',
  value: 'path|-',
  help: 'read the token from this file, or from stdin (-)',
} as const;

/** The token of a command: from `--token-file` or `--token`, else from the environment. */
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

/** The warning to a user who gave `--token`. */
export function tokenWarning(variable: string): string {
  return `other accounts of this machine can see --token in the process list; use --token-file <path>, --token-file - (stdin) or ${variable}`;
}

/** The one word on stdin. */
export function secretFromStdin(): string {
  return oneWord(lineFromStdin(), 'stdin');
}

function oneWord(text: string, source: string): string {
  const word = text.trim();
  if (word === '') throw new Refusal('invalid_request', `${source} is empty; it must contain one line`);
  if (/\s/.test(word))
    throw new Refusal('invalid_request', `${source} contains more than one word; it must contain only the secret`);
  return word;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Refusal('invalid_request', `--token-file cannot read ${path} (${codeOf(error) ?? 'unknown'})`);
  }
}

/** Reads stdin up to the end of the first line: at a terminal, a person pastes one line. */
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
