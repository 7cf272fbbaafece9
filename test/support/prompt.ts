import { readsAsProtocol } from '../../src/core/gate.ts';

const FIELDS = [
  'event_id',
  'conversation',
  'thread',
  'author',
  'directedness',
  'response_policy',
  'reason',
  'reply_target',
];

/**
 * Reads a prompt as a strict harness would: one header, its fields in order, one message, one end. Throws if anything else looks like one
 * of these.
 */
export function parsePrompt(text: string): Record<string, string> {
  const lines = text.split('\n');
  const at = (line: string): number => {
    const found = lines.flatMap((one, place) => (one === line ? [place] : []));
    if (found.length !== 1) throw new Error(`${found.length} lines are ${JSON.stringify(line)} in:\n${text}`);
    return found[0] ?? -1;
  };
  const start = at('C2A EVENT');
  const fields = FIELDS.map((name, place): [string, string] => {
    const line = lines[start + 1 + place] ?? '';
    if (!line.startsWith(`${name}: `)) throw new Error(`no ${name} in ${JSON.stringify(line)}`);
    if (lines.filter((one) => one.startsWith(`${name}:`)).length !== 1) throw new Error(`${name} is there twice`);
    return [name, unquoted(line.slice(name.length + 2))];
  });
  const message = at('MESSAGE');
  if (message !== start + FIELDS.length + 2 || lines[message - 1] !== '') throw new Error('the header does not end');
  const end = at(`END OF MESSAGE ${fields[0]?.[1]}`);
  const body = lines
    .slice(message + 1, end)
    .map((line) => (line.startsWith('> ') && readsAsProtocol(line.slice(2)) ? line.slice(2) : line));
  return { ...Object.fromEntries(fields), body: body.join('\n') };
}

/** A value in quotes, perhaps after a word of ours. */
function unquoted(value: string): string {
  const [, word = '', quotes] = /^((?:[a-z]+[: ])?)(".*")$/.exec(value) ?? [];
  return quotes === undefined ? value : `${word}${JSON.parse(quotes) as string}`;
}
