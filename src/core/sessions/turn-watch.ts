import type { SessionState, TurnEvent } from '../ports/session.ts';

/** Reports the states of a session to its watchers. Reports `active` also for a turn that began and ended between two looks. */
export class TurnWatch {
  #state: SessionState | null = null;
  /** A turn that is in the record but during which the session was not seen as `active` yet. */
  #unseen: string | null = null;

  constructor(readonly changed: (state: SessionState) => void) {}

  looked(state: SessionState): void {
    this.#state = state;
    if (state.status === 'active') this.#unseen = null;
    this.changed(state);
  }

  recorded({ kind, turn }: TurnEvent): void {
    const state = this.#state;
    if (state?.status !== 'idle') return;
    if (kind === 'prompt') this.#unseen = turn;
    else if (turn === this.#unseen) {
      this.#unseen = null;
      this.changed({ ...state, status: 'active' });
      this.changed(state);
    }
  }
}
