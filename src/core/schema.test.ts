import { describe, expect, it } from 'bun:test';
import { Glob } from 'bun';
import { readFileSync } from 'node:fs';
import { SETTINGS } from '../cli/settings.ts';
import { TOOLS } from '../protocols/c2a/shapes.ts';
import { Draft, Intent } from './message.ts';
import { Schema } from './schema.ts';

/** Every schema that a module of these folders exports, with those of settings and tools. */
async function allSchemas(): Promise<[name: string, schema: Schema<never>][]> {
  const found: [string, unknown][] = [];
  const root = `${import.meta.dir}/..`;
  for (const file of new Glob('{core,protocols}/**/*.ts').scanSync(root)) {
    const path = `${root}/${file}`;
    // What only runs as a program exports no schema.
    if (/new Schema\(/.test(readFileSync(path, 'utf8')) && !/\.(test|contract)\.ts$/.test(file))
      found.push(...Object.entries((await import(path)) as object));
  }
  found.push(
    ...Object.entries(TOOLS),
    ...Object.entries(SETTINGS).map(([name, { schema }]): [string, unknown] => [name, schema]),
  );
  return found.filter((one): one is [string, Schema<never>] => one[1] instanceof Schema);
}

/** What is wrong with a value, somewhere in it, for nearly every schema. */
const JUNK = [
  undefined,
  null,
  5,
  1.5,
  NaN,
  true,
  '',
  'foo',
  '\n',
  'x'.repeat(3000),
  [],
  [5],
  {},
  { to: '@a' },
  { to: '@a', body: 'x', intent: 'foo', deadline: 'soon', refs: [5], key: '', obligation: { blocks: 'foo' } },
  { to: '@a', body: 'x', intent: 'none', obligation: { blocks: 'none', defaultAction: 'x'.repeat(501) } },
  { target: '', text: 5, limit: 0.5, eventId: '', since: 'soon', signal: 'foo', policy: 'foo' },
  { target: '@a', text: 'x', idempotencyKey: 'k', visibility: 'foo', directedness: 'foo' },
];

describe('a value that does not fit', () => {
  it('is refused in our own words, never in those of the library', async () => {
    const schemas = await allSchemas();
    expect(schemas.length).toBeGreaterThan(40);
    const foreign = schemas.flatMap(([name, schema]) =>
      JUNK.flatMap((input) => {
        const parsed = schema.safeParse(input);
        return !parsed.success && /^Invalid |Expected|[Rr]eceived|undefined|null/.test(parsed.why)
          ? [`${name}: ${parsed.why}`]
          : [];
      }),
    );
    expect(foreign).toEqual([]);
  });

  it('is told what can be there instead', () => {
    const why = (schema: { safeParse(input: unknown): object }, input: unknown): unknown =>
      'why' in schema.safeParse(input) ? (schema.safeParse(input) as { why: string }).why : undefined;
    expect(why(Intent, 'foo')).toBe('use none, question, assignment, approval, blocker, fyi, status or thanks');
    expect(why(Draft, { to: '@a' })).toBe('it is missing');
    expect(why(Draft, { to: '@a', body: 'x', refs: 5 })).toBe('use a list');
    expect(why(SETTINGS.bodyLimit.schema, 'foo')).toBe('use a whole number');
    expect(why(SETTINGS.bodyLimit.schema, 0)).toBe('use 1 or more');
    expect(why(SETTINGS.keepBodies.schema, {})).toBe('use a text or a number');
    expect(why(SETTINGS.durability.schema, 'foo')).toBe('use normal or full');
    expect(why(TOOLS['chat.list_events'], { limit: 500 })).toBe('use at most 200');
    expect(why(TOOLS['chat.list_events'], { since: 'soon' })).toBe('use an ISO time, such as 2026-11-17T08:30:00Z');
  });
});
