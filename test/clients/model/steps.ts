// What a scripted model answers, step by step.

/** A tool call: its name as the client offers it, and its input. */
export interface Call {
  tool: string;
  input: Record<string, unknown>;
}

/** One answer of the model. With `after` it is held back until that has happened: a gate, not a delay. */
export interface Step {
  text?: string;
  calls?: readonly Call[];
  after?: Promise<unknown>;
  /** It does not answer but refuses, with this HTTP status. */
  refusal?: number;
}

/** The model says this, and its turn ends. */
export const say = (text: string, after?: Promise<unknown>): Step => ({ text, ...(after && { after }) });

/** The model calls a tool: `call('Bash', { command: 'true' })` in Claude Code, `call('bash', …)` in OpenCode. */
export const call = (tool: string, input: Record<string, unknown>, after?: Promise<unknown>): Step => ({
  calls: [{ tool, input }],
  ...(after && { after }),
});

/** A shell command by the Bash tool of Claude Code. */
export const bash = (command: string, after?: Promise<unknown>): Step =>
  call('Bash', { command, description: 'a scripted step' }, after);

/** The model refuses to answer: 500 is trouble of its own, 429 too many requests. */
export const refuse = (refusal = 500): Step => ({ refusal });

/** A gate that a test opens when it wants the model to go on. */
export function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: () => resolve() };
}
