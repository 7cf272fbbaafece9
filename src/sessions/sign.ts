/**
 * What a client says of one of its sessions. `dialog`: it asks its user something, and Enter would answer. `starting`: it may lose
 * what is typed. What nobody said lately is `unknown`.
 */
export type ClientState = 'idle' | 'busy' | 'dialog' | 'starting' | 'unknown';

/** A sign that came from the client itself: its registry, its transcript, a hook that it ran, an event that it sent. A screen gives none. */
export interface Sign {
  state: ClientState;
  /** When the client said so, in ms. */
  at: number;
  source: 'registry' | 'transcript' | 'hook' | 'event';
  /** In the client's own words, for people who ask why. */
  detail?: string;
  /** The client's process, where the sign names it: then it must be one that runs in the terminal. */
  pid?: number;
}

/** The signs of one session. */
export interface Signs {
  /** The last sign; null if there is none, or if the client does not run any more. */
  latest(): Promise<Sign | null>;
  /**
   * Where a client also writes down what its user says: asked before something is said, it gives the look after that very text. A state
   * alone can be missed: a client that is very slow may take a text, work, and be idle again without ever having said `busy`.
   */
  listen?(): Promise<(text: string) => Promise<Sign | null>>;
}
