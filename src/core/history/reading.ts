import { mentionsIn } from '../attention/text.ts';
import { asksQuestion, isOnlyThanks } from '../attention/thanks.ts';
import type { Message } from '../message.ts';
import { AgentName } from '../names.ts';
import type { Home } from '../mail/workspace.ts';

/** How many names a body can call. */
const MENTIONS = 20;

const readings = new WeakMap<Message, Reading>();

/** What a message says, the same for every reader of it: in a channel there may be hundreds, and it is read once. */
export function readingOf(home: Home, message: Message): Reading {
  const reading = readings.get(message) ?? new Reading(home, message.body);
  readings.set(message, reading);
  return reading;
}

class Reading {
  #called: Promise<AgentName[]> | undefined;
  #onlyThanks: boolean | undefined;
  #asks: boolean | undefined;

  constructor(
    readonly home: Home,
    readonly body: string,
  ) {}

  get isOnlyThanks(): boolean {
    return (this.#onlyThanks ??= isOnlyThanks(this.body));
  }

  get asksQuestion(): boolean {
    return (this.#asks ??= asksQuestion(this.body));
  }

  /** Names in prose that nobody here has (decorators, packages) address nobody. */
  called(): Promise<AgentName[]> {
    return (this.#called ??= this.body.includes('@') ? known(this.home, this.body) : Promise.resolve([]));
  }
}

/** The agents and roles among the names that a body calls; of a body that calls a crowd, the first few. */
async function known(home: Home, body: string): Promise<AgentName[]> {
  const called = mentionsIn(body)
    .slice(0, MENTIONS)
    .map((name) => AgentName.safeParse(name))
    .flatMap((name) => (name.success ? [name.data] : []));
  const here = new Set<AgentName>();
  for (const name of called) if (await home.directory.get(name)) here.add(name);
  const others = called.filter((name) => !here.has(name));
  for (const role of others.length > 0 ? await home.directory.rolesAmong(others) : []) here.add(role);
  return called.filter((name) => here.has(name));
}
