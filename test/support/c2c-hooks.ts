import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs';
import { hookFolder, ROUNDING_MS } from '../../src/protocols/c2c/hook-session.ts';
import { c2cHookScript } from '../../src/delivery/hook-script.ts';
import { Brokerage } from './c2c.ts';
import type { Run } from './program.ts';
import { PARLEY } from './program.ts';

/**
 * A machine with a broker, on which Claude Code calls the real hook script. Every start of the slow half is counted: the script calls
 * a small program of ours in its stead, which writes that down and becomes the real one.
 */
export class C2cHooks extends Brokerage {
  readonly script = `${this.program.home}/c2c-inbox-check.sh`;
  readonly #slow = `${this.program.home}/slow half`;

  constructor() {
    super();
    this.slowHalf(`echo >>'${this.program.home}/starts'\nexec '${PARLEY}' c2c "$@"`);
    const folder = hookFolder(this.program.env);
    writeFileSync(this.script, c2cHookScript({ folder, command: [this.#slow], shell: Bun.which('bash') ?? '' }));
    chmodSync(this.script, 0o755);
  }

  /** What the script starts when something may wait. */
  slowHalf(lines: string): void {
    writeFileSync(this.#slow, `#!/bin/sh\n${lines}\n`);
    chmodSync(this.#slow, 0o755);
  }

  /** How often the slow half was started. */
  get starts(): number {
    const path = `${this.program.home}/starts`;
    return existsSync(path) ? statSync(path).size : 0;
  }

  /** Waits until the inbox is old enough that a look at it counts: a change within the clock's rounding could be missed. */
  async inboxIsOld(session = 's-bob'): Promise<void> {
    const changed = statSync(`${this.root}/${session}.inbox.json`).mtimeMs;
    while (Date.now() - changed <= ROUNDING_MS) await Bun.sleep(1);
  }

  /** In the order in which Claude Code writes it: who calls stands before what a tool took and gave. */
  event({ agent_id, ...fields }: Record<string, unknown> = {}): string {
    return JSON.stringify({
      session_id: 's-bob',
      cwd: this.program.home,
      agent_id,
      hook_event_name: 'PostToolUse',
      tool_name: 'Bash',
      tool_input: { command: 'true' },
      ...fields,
    });
  }

  /** One call of the script, as the client makes it. */
  async call(event: Record<string, unknown> | string = {}, env: Record<string, string> = {}): Promise<Run> {
    const child = Bun.spawn([this.script], {
      cwd: this.program.home,
      env: this.env({ env }),
      stdin: new Blob([typeof event === 'string' ? event : this.event(event)]),
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { out, err, code };
  }

  /** What the model gets from one call: nothing must be wrong with it. */
  async told(event: Record<string, unknown> = {}, env: Record<string, string> = {}): Promise<string> {
    const { out, err, code } = await this.call(event, env);
    if (code !== 0 || err !== '') throw new Error(`the hook ended with ${code}: ${err}`);
    if (out === '') return '';
    const { hookSpecificOutput } = JSON.parse(out) as {
      hookSpecificOutput: { hookEventName: string; additionalContext: string };
    };
    return hookSpecificOutput.additionalContext;
  }
}

/** The messages in a text: who each is from, and what it says. */
export function envelopesIn(text: string): { from: string; to: string; alias: string; id: string; body: string }[] {
  const found = text.matchAll(/^<c2c event="message"([^>]*)>\n([^]*?)\n<\/c2c>$/gm);
  return [...found].map(([, attributes = '', body = '']) => {
    const said = (name: string): string => new RegExp(` ${name}="([^"]*)"`).exec(attributes)?.[1] ?? '';
    return { from: said('from'), to: said('to'), alias: said('alias'), id: said('message_id'), body };
  });
}
