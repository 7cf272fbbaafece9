import type { NewSessionMessage, SessionBinding, SessionStore } from '../ports/session-store.ts';
import type { Prompt, RecordPlace, SessionDriver, SessionState, TurnEvent } from '../ports/session.ts';

export interface RecordReaderDeps {
  store: Pick<SessionStore, 'record' | 'binding' | 'bind'>;
  recordsTerminal(): Promise<boolean>;
  publish(): Promise<void>;
  now(): number;
}

/** How many late turns and missed prompts are remembered, each. */
const MOST_LATE = 100;

/**
 * Reads a client's record from a remembered place, and stores the turns that a person began as history.
 *
 * The remembered place moves only while no turn is open, so after a crash an open turn is read again from its beginning. Nothing is stored
 * twice, because the store knows the turns that it has.
 */
export class RecordReader {
  #place: RecordPlace | null = null;
  #bound: SessionBinding = { conversation: null, place: null };
  /** The conversation that `#place` is in. */
  #placeIn: string | null = null;
  /** Open turns that a person began, each with the id of the prompt's line. */
  readonly #open = new Map<string, number>();
  /** Turns whose end is no longer expected, each with the id of the prompt's line. If the end comes, it is still stored. */
  readonly #late = new Map<string, number>();
  /**
   * Prompts of ours that failed because the record did not have them, by the id of their line. If one appears in the record later, a person
   * did not begin its turn.
   */
  readonly #missed = new Map<number, Prompt>();

  constructor(
    readonly session: string,
    readonly deps: RecordReaderDeps,
  ) {}

  get conversation(): string | null {
    return this.#bound.conversation;
  }

  get place(): RecordPlace {
    if (this.#place === null) throw new Error('the record was not opened');
    return this.#place;
  }

  /** Loads the conversation and the place that the store remembers for the session. */
  async load(): Promise<void> {
    this.#bound = (await this.deps.store.binding(this.session)) ?? this.#bound;
    this.#placeIn = this.#bound.conversation;
  }

  /** Sets the place to read from: `from`, else the remembered place, else the end of the record. */
  async open(driver: SessionDriver, from: RecordPlace | null): Promise<void> {
    this.#place = from ?? this.#bound.place ?? (await driver.place());
  }

  /** Stores the conversation that the session has now. */
  async follow({ conversation }: SessionState): Promise<void> {
    if (conversation === undefined || conversation === this.#bound.conversation) return;
    await this.#bind({ ...this.#bound, conversation });
  }

  /** Reads the new events in order. `take` returns whether an event belongs to a prompt of ours. Returns the number of events. */
  async read(driver: SessionDriver, take: (event: TurnEvent) => Promise<boolean>): Promise<number> {
    const { events, next } = await driver.events(this.place);
    let lines = 0;
    for (const event of events) {
      if (!(await take(event)) && !this.#isMissed(driver, event)) lines += await this.#store(event);
    }
    this.#place = next;
    if (lines > 0) await this.deps.publish();
    return events.length;
  }

  /**
   * Stores the place, unless a turn is open; then returns false. Call this only while no prompt of ours is open. `isOver`: no end of the
   * open turns is expected any more.
   */
  async keep(isOver: boolean): Promise<boolean> {
    if (isOver) {
      for (const [turn, line] of this.#open) this.leave(turn, line);
      this.#open.clear();
    }
    if (this.#open.size > 0) return false;
    if (this.place !== this.#bound.place) await this.#bind({ ...this.#bound, place: this.place });
    return true;
  }

  /** Moves to the end of the record if the conversation of the session has changed. */
  async anchor(driver: SessionDriver): Promise<void> {
    if (this.#placeIn === this.#bound.conversation) return;
    this.#place = await driver.place();
    this.#placeIn = this.#bound.conversation;
  }

  /** The end of this turn is no longer expected. */
  leave(turn: string, line: number): void {
    if (this.#late.size >= MOST_LATE) this.#late.clear();
    this.#late.set(turn, line);
  }

  /** This prompt failed because the record does not have it. */
  missed(line: number, prompt: Prompt): void {
    if (this.#missed.size >= MOST_LATE) this.#missed.clear();
    this.#missed.set(line, prompt);
  }

  /** The client has ended, so a missed prompt cannot appear in its record any more. */
  forgetMissed(): void {
    this.#missed.clear();
  }

  #isMissed(driver: SessionDriver, event: TurnEvent): boolean {
    const found = [...this.#missed].find(([, prompt]) => driver.isOurs(event, prompt));
    if (!found) return false;
    this.#missed.delete(found[0]);
    this.leave(event.turn, found[0]);
    return true;
  }

  /** Stores an event of a person's turn, or of a late turn. Returns the number of stored lines. */
  async #store(event: TurnEvent): Promise<number> {
    const { turn, text } = event;
    if (event.kind === 'prompt') {
      if (!(await this.deps.recordsTerminal())) return 0;
      const line = { from: 'human', text, username: 'terminal' } as const;
      this.#open.set(turn, (await this.#record(line, turn)).id);
      return 1;
    }
    const reply_to = this.#open.get(turn) ?? this.#late.get(turn);
    if (reply_to === undefined) return 0;
    const isCut = event.how !== 'done';
    if (text !== '' || !isCut) {
      const { shared } = event;
      const line = { from: 'claude', text, reply_to, ...(shared && { shared }) } as const;
      await this.#record({ ...line, ...(isCut && { status: 'interrupted' }) }, turn);
    }
    this.#open.delete(turn);
    this.#late.delete(turn);
    return 1;
  }

  #record(line: Omit<NewSessionMessage, 'session' | 'ts'>, turn: string) {
    const ts = Math.floor(this.deps.now() / 1000);
    return this.deps.store.record({ ...line, session: this.session, ts }, turn);
  }

  async #bind(binding: SessionBinding): Promise<void> {
    await this.deps.store.bind(this.session, binding);
    this.#bound = binding;
  }
}
