import type { Screen } from './terminal.ts';

/**
 * What a screen says of the place where a user types. `busy`: the client shows that it works. `dialog`: something is asked, and Enter
 * would answer. `unknown`: no composer is seen, so another program may stand there.
 */
export type Composer = 'empty' | 'draft' | 'busy' | 'dialog' | 'unknown';

/** One client's screen, read. It can only forbid: that a client is idle is said by the client itself (sign.ts). */
export type ReadComposer = (screen: Screen) => Composer;

/** For a terminal whose screen nobody can read, and only for those who asked for that: the client's sign must do alone. */
export const unseen: ReadComposer = () => 'empty';
