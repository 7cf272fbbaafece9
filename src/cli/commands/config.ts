import { join } from 'node:path';
import { command } from '../../core/command.ts';
import { spanText } from '../../core/time.ts';
import { lineForModel } from '../../core/gate.ts';
import { nearest } from '../../core/nearest.ts';
import { parleyHome } from '../../platform/env.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Context } from '../context.ts';
import { changeSetting } from '../settings-file.ts';
import { SETTINGS } from '../settings.ts';
import type { Origin, SettingName } from '../settings.ts';

const NAMES = Object.keys(SETTINGS) as SettingName[];

const configCommand = command({
  usage: 'config [set|unset] [key] [value]',
  about:
    'Shows every setting, its value, and its source: an option, the environment, the nearest trusted .parley.json, config.json of the ' +
    'home, or the default, in this order. `set` and `unset` change config.json and keep its comments.',
  words: [0, 3],
  examples: [
    'parley config',
    'parley config keepBodies',
    'parley config set keepBodies forever',
    'parley config unset agent',
  ],
  async run(context: Context, _values, [verb, key, ...value]) {
    if (verb === 'set' || verb === 'unset') return change(context, verb, key, value);
    if (key !== undefined) throw usage();
    if (verb === undefined) return showAll(context);
    const origin = shown(originOf(context, settingName(verb)));
    if (context.json) return context.sayJson(origin);
    context.say(lineForModel(String(origin.value ?? '')));
  },
});

function showAll(context: Context): void {
  const { origins, warnings } = context.loaded;
  const settings = origins.map(shown);
  if (context.json) return context.sayJson({ settings, warnings });
  const values = settings.map(({ value }) => (value === null ? '(not set)' : lineForModel(String(value))));
  const widths = { name: widest(NAMES), value: widest(values) };
  for (const [at, { name, from }] of settings.entries()) {
    const value = (values[at] ?? '').padEnd(widths.value);
    context.say(`${context.paint.bold(name.padEnd(widths.name))}${value}${context.paint.dim(from)}`);
  }
  for (const warning of warnings) context.note(`${context.paint.yellow('warning:')} ${warning}`);
}

function widest(texts: readonly string[]): number {
  return Math.max(...texts.map((text) => text.length)) + 2;
}

function change(context: Context, verb: 'set' | 'unset', key: string | undefined, [text, ...more]: string[]): void {
  if (key === undefined || more.length > 0 || (text === undefined) === (verb === 'set')) throw usage();
  const name = settingName(key);
  const path = join(parleyHome(context.env), 'config.json');
  changeSetting(path, name, text === undefined ? undefined : usable(name, text));
  const now = originOf(context, name);
  if (context.json) return context.sayJson({ name, value: written(now), from: now.from, file: path });
  context.say(verb === 'set' ? `set ${name} in ${path}` : `${name} is not set in ${path}`);
  if (verb === 'set' && now.from !== path) context.note(`${now.from} overrides it: ${name} is ${String(written(now))}`);
}

/** A known name; another is refused with the nearest one. */
function settingName(text: string): SettingName {
  const name = NAMES.find((one) => one === text);
  if (name) return name;
  const [near] = nearest(text, NAMES);
  throw new Refusal(
    'invalid_request',
    `no setting is called "${lineForModel(text, 40)}"; ${near ? `did you mean ${near}?` : `use ${NAMES.join(', ')}`}`,
  );
}

/** The value as it will stand in the file, once it is known to be usable. */
function usable(name: SettingName, text: string): string | number {
  const { schema, fallback } = SETTINGS[name];
  const value = typeof fallback === 'number' && /^\d+$/.test(text) ? Number(text) : text;
  const parsed = schema.safeParse(value);
  if (parsed.success) return value;
  throw new Refusal('invalid_request', `"${lineForModel(text, 40)}" is not a value for ${name}: ${parsed.why}`);
}

function originOf(context: Context, name: SettingName): Origin {
  const origin = context.loaded.origins.find((one) => one.name === name);
  if (!origin) throw new Error(`no origin for ${name}`);
  return origin;
}

/** A setting as it may be set, and what it is for. */
function shown(origin: Origin): { name: SettingName; value: string | number | null; from: string; help: string } {
  return { name: origin.name, value: written(origin), from: origin.from, help: SETTINGS[origin.name].help };
}

/** A value in the form in which it may be set; null if there is none. */
function written({ name, value }: Origin): string | number | null {
  if (name === 'keepBodies' || name === 'keepFacts') return spanText(value as number | null);
  return (value as string | number | undefined) ?? null;
}

function usage(): Refusal {
  return new Refusal(
    'invalid_request',
    'usage: parley config [key] | parley config set <key> <value> | parley config unset <key>',
  );
}

export const commands = {
  config: configCommand,
};
