import { calledIn } from '../attention/text.ts';
import { asksQuestion, isOnlyThanks } from '../attention/thanks.ts';
import type { Message } from '../message.ts';
import { AgentName } from '../names.ts';
import type { Home } from '../mail/workspace.ts';

/** How many names a body can call. */
const MENTIONS = 20;

const readings = new WeakMap<Message, Reading>();

/** What a message says, the same for every reader of it: in a channel there may be hundreds, and it is read once. */
export function readingOf(home: Home, message: Message): Reading {
  const reading = readings.get(message) ?? new Reading(home, message);
  readings.set(message, reading);
  return reading;
}

class Reading {
  #called: Promise<AgentName[]> | undefined;
  #onlyThanks: boolean | undefined;
  #asks: boolean | undefined;

  constructor(
    readonly home: Home,
    readonly message: Message,
  ) {}

  get isOnlyThanks(): boolean {
    return (this.#onlyThanks ??= isOnlyThanks(this.message.body));
  }

  get asksQuestion(): boolean {
    return (this.#asks ??= asksQuestion(this.message.body));
  }

  /** Names in prose that nobody here has (decorators, packages) address nobody. */
  called(): Promise<AgentName[]> {
    return (this.#called ??= known(this.home, calledIn(this.message)));
  }
}

/** The agents and roles among these names; of a crowd, the first few. */
async function known(home: Home, names: readonly string[]): Promise<AgentName[]> {
  if (names.length === 0) return [];
  const called = names
    .slice(0, MENTIONS)
    .map((name) => AgentName.safeParse(name))
    .flatMap((name) => (name.success ? [name.data] : []));
  const here = new Set<AgentName>();
  for (const name of called) if (await home.directory.get(name)) here.add(name);
  const others = called.filter((name) => !here.has(name));
  for (const role of others.length > 0 ? await home.directory.rolesAmong(others) : []) here.add(role);
  return called.filter((name) => here.has(name));
}
