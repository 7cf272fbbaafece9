import type { NewSessionMessage, SessionBinding, SessionStore } from '../ports/session-store.ts';
import type { Prompt, RecordPlace, SessionDriver, SessionState, TurnEvent } from '../ports/session.ts';

export interface RecordReaderDeps {
  store: Pick<SessionStore, 'record' | 'binding' | 'bind'>;
  recordsTerminal(): Promise<boolean>;
  publish(): Promise<void>;
  now(): number;
}

const MOST_LATE = 100;

/**
 * Reads a client's record, from a place that it remembers, and makes history of the turns that a person began.
 *
 * The remembered place moves only while no turn is open: after a crash an open turn is read again from its beginning. What was stored
 * before the crash is not stored twice, because the store knows the turns that it has.
 */
export class RecordReader {
  #place: RecordPlace | null = null;
  #bound: SessionBinding = { conversation: null, place: null };
  /** The conversation in which the place is. */
  #placeIn: string | null = null;
  /** Open turns that are none of ours, with the line of their prompt. */
  readonly #open = new Map<string, number>();
  /** Turns of which we do not expect an end any more, with the line of their prompt. If it comes, it is still stored. */
  readonly #late = new Map<string, number>();
  /** Prompts of ours that failed because the record did not have them, by their line. If one comes, its turn is not a person's. */
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

  /** What the store remembers of the session. */
  async load(): Promise<void> {
    this.#bound = (await this.deps.store.binding(this.session)) ?? this.#bound;
    this.#placeIn = this.#bound.conversation;
  }

  /** Reads on from this place; without one, from where it was left; where nothing is known, from the end. */
  async open(driver: SessionDriver, from: RecordPlace | null): Promise<void> {
    this.#place = from ?? this.#bound.place ?? (await driver.place());
  }

  /** Keeps the conversation that the session has now. */
  async follow({ conversation }: SessionState): Promise<void> {
    if (conversation === undefined || conversation === this.#bound.conversation) return;
    await this.#bind({ ...this.#bound, conversation });
  }

  /** Hands on what was recorded since, in order. `take` says whether an event is of a prompt of ours. Returns how many there were. */
  async read(driver: SessionDriver, take: (event: TurnEvent) => Promise<boolean>): Promise<number> {
    const { events, next } = await driver.events(this.place);
    let lines = 0;
    for (const event of events) {
      if (!(await take(event)) && !this.#isMissed(driver, event)) lines += await this.#other(event);
    }
    this.#place = next;
    if (lines > 0) await this.deps.publish();
    return events.length;
  }

  /**
   * Remembers the place, unless a turn is open. Only while no prompt of ours is open. `isOver`: turns that are open now have no end in
   * the record. Returns false if a turn is open.
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

  /** Goes to the end of the record, if the session has another conversation than before. */
  async anchor(driver: SessionDriver): Promise<void> {
    if (this.#placeIn === this.#bound.conversation) return;
    this.#place = await driver.place();
    this.#placeIn = this.#bound.conversation;
  }

  /** Nobody waits for the end of this turn any more. */
  leave(turn: string, line: number): void {
    if (this.#late.size >= MOST_LATE) this.#late.clear();
    this.#late.set(turn, line);
  }

  /** This prompt has failed, because it is not in the record. */
  missed(line: number, prompt: Prompt): void {
    if (this.#missed.size >= MOST_LATE) this.#missed.clear();
    this.#missed.set(line, prompt);
  }

  /** The client has ended, and what is not in its record does not come any more. */
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

  /** A turn of a person, or a late one of ours. Returns the number of lines that were stored. */
  async #other(event: TurnEvent): Promise<number> {
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
