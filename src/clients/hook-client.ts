/**
 * How a text must be handed over at one event of a client so that it reaches the model.
 * `context`: JSON with additionalContext on stdout. `plain`: the bare text on stdout. `block` and `deny`: a JSON decision on
 * stdout whose reason the model gets. `stderr`: the bare text on stderr, with exit code 2. spec: hook#clients
 */
export type Form = 'context' | 'plain' | 'block' | 'deny' | 'stderr';

export interface HookClient {
  name: string;
  /** The events at which a text reaches the model. At every other event nothing is said, so nothing may be taken. */
  events: Readonly<Record<string, Form>>;
  /** Events at which a turn of the session's own begins: what wakes nobody is shown there. */
  beginsTurn: readonly string[];
  /** Events after which the model would rest: whatever is said there costs another turn. */
  endsTurn: readonly string[];
  /** It runs no second hook at the end of a turn that a text has prolonged: after that text comes the next prompt. */
  prolongsOnce?: boolean;
  /** Each of its processes has one session at a time: where another starts, the one before has ended. */
  oneSession?: boolean;
  /** Tools after which the client drops what a hook says. */
  deafAfter: readonly string[];
  /** What the client counts when it decides that a text is too long to be shown whole. */
  counts: 'characters' | 'bytes';
  /** The events at which the hook should be called, and how long it may take, in the unit of the client. */
  registers: readonly string[];
  timeout: number;
  /** What to paste into which file, for this command. */
  settings(command: string): string;
}

/** More than this never reaches a model whole: beyond 10,000 both Claude Code and Codex put the text into a file. */
export const TEXT_LIMIT = 9000;

/** A text in the form of an event: what to write where, and how to exit. */
export interface Framed {
  fd: 1 | 2;
  text: string;
  exit: 0 | 2;
}

export function framed(form: Form, event: string, text: string): Framed {
  switch (form) {
    case 'context':
      return json({ hookSpecificOutput: { hookEventName: event, additionalContext: text } });
    case 'block':
      return json({ decision: 'block', reason: text });
    case 'deny':
      return json({ decision: 'deny', reason: text });
    case 'plain':
      return { fd: 1, text: `${text}\n`, exit: 0 };
    case 'stderr':
      return { fd: 2, text: `${text}\n`, exit: 2 };
  }
}

function json(value: unknown): Framed {
  return { fd: 1, text: `${JSON.stringify(value)}\n`, exit: 0 };
}

/** How long a text is in the client's own measure. */
export function lengthFor(client: HookClient, text: string): number {
  return client.counts === 'bytes' ? Buffer.byteLength(text) : text.length;
}
