// Drivers of real clients, used as control uses them.
import type { Prompt, SessionDriver, SessionState, SessionTarget, TurnEvent } from '../../../src/core/ports/session.ts';
import { openControl } from '../../../src/core/sessions/control.ts';
import type { SessionControl } from '../../../src/core/sessions/control.ts';
import { openSqliteJournal } from '../../../src/store/journal/sqlite.ts';
import { within } from '../../support/within.ts';
import { opens } from './opened.ts';
import type { Place } from './place.ts';

const DEADLINE = 200_000;

export function aTarget({ project }: Place, client: string, name: string): SessionTarget {
  const how = { host: 'local', client, command: [client], conversation: null, startTimeoutMs: DEADLINE };
  return { name, folder: project, ...how };
}

export function aPrompt(driver: SessionDriver, text: string): Prompt {
  return { key: crypto.randomUUID(), text: driver.prepare(text) };
}

export function neverAborted(): AbortSignal {
  return new AbortController().signal;
}

/** As control does it: one attempt after the other until the client has it, and then its record until the turn is over. */
export async function asks(driver: SessionDriver, text: string) {
  const prompt = aPrompt(driver, text);
  let place = await driver.place();
  const seen: TurnEvent[] = [];
  // Where the driver does not know, the record does.
  await within(DEADLINE, async () => (await driver.submit(prompt, neverAborted())).outcome !== 'left');
  for (const until = performance.now() + DEADLINE; performance.now() < until; await Bun.sleep(20)) {
    const { events, next } = await driver.events(place);
    place = next;
    seen.push(...events);
    const begun = seen.find((event) => event.kind === 'prompt' && driver.isOurs(event, prompt));
    const end = seen.find((event) => event.kind === 'end' && event.turn === begun?.turn);
    if (begun?.kind === 'prompt' && end) return { prompt: begun, end };
  }
  throw new Error(`no answer to ${text}: ${JSON.stringify(seen)}`);
}

export async function becomes(driver: SessionDriver, status: SessionState['status']): Promise<void> {
  await within(DEADLINE, async () => (await driver.state()).status === status);
}

/** The tmux server of the user in whose environment a driver runs. */
export async function tmux(env: Record<string, string>, ...words: string[]): Promise<void> {
  const child = Bun.spawn(['tmux', ...words], { env, stdout: 'ignore', stderr: 'pipe' });
  if ((await child.exited) !== 0) throw new Error(await new Response(child.stderr).text());
}

/** A person pastes into the session `one`, in brackets. */
export async function pastes(env: Record<string, string>, text: string): Promise<void> {
  await tmux(env, 'set-buffer', '-b', 'test', '--', text);
  await tmux(env, 'paste-buffer', '-p', '-d', '-b', 'test', '-t', '=ccc-one:');
}

/** Opens the control of sessions in the project, as often as it is called, on one store. `lines` is the history of a session. */
export function aControl(
  place: Place,
  names: readonly string[],
  client: string,
  driver: (target: SessionTarget) => SessionDriver,
): (() => SessionControl) & { lines(session: string): Promise<string[]> } {
  const journal = openSqliteJournal({ path: `${place.home}/ledger.db`, durability: 'normal' });
  opens({ close: async () => journal.close() });
  const store = journal.sessionStore();
  const open = (): SessionControl =>
    opens(
      openControl({
        store,
        targets: async () => names.map((name) => ({ ...aTarget(place, client, name), sharesFolder: names.length > 1 })),
        driver,
        publish: async () => {},
        recordsTerminal: async () => true,
        now: Date.now,
        log: () => {},
      }),
    );
  const lines = async (session: string): Promise<string[]> =>
    (await store.history({ session, after: 0, limit: 100 })).map(({ from, text }) => `${from}: ${text}`);
  return Object.assign(open, { lines });
}
