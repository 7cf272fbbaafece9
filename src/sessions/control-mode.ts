import { Refusal } from '../protocol/refusal.ts';

/** A block of tmux's answer: the lines that one command printed, or why it failed. */
type Block = { lines: string[]; failed: boolean };

interface Asked {
  marker: string;
  blocks: Block[];
  resolve(blocks: Block[]): void;
  reject(error: Error): void;
}

/**
 * One `tmux -C` client. Commands go in as lines; each answer comes back between `%begin` and `%end` with the same numbers.
 * What a pane shows is written by strangers, so an answer could hold a line that looks like the end of its block. After each
 * command a second one prints a mark that nobody can guess: an answer counts only if what came before the mark is exactly one
 * whole block, and anything between blocks that is no notice ends the connection.
 */
export class ControlClient {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'pipe'>;
  readonly #asked: Asked[] = [];
  #open: { head: string; block: Block } | null = null;
  #gone: Error | null = null;
  readonly #reading: Promise<void>;

  constructor(command: readonly string[], env: Record<string, string | undefined>) {
    this.#child = Bun.spawn([...command], { env, stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' });
    this.#reading = this.#read();
  }

  get isGone(): boolean {
    return this.#gone !== null;
  }

  /** What the commands printed, one entry for each of them. Throws what tmux said if one fails. */
  async ask(...commands: string[][]): Promise<string[][]> {
    const printed = await this.#answers(lineOf(commands));
    if (printed.length !== commands.length) throw this.#end(new Error('tmux answered out of turn'));
    return printed;
  }

  /**
   * Does `act` if this holds of the pane in that very moment, else `otherwise`: between the look and the act tmux does nothing else.
   * What the one that was done printed.
   */
  async when(pane: string, holds: string, act: string[][], otherwise: string[][]): Promise<string[]> {
    // `if-shell` alone takes any pane if it does not find this one.
    const there = lineOf([['has-session', '-t', pane]]);
    const printed = await this.#answers(
      `${there} ; if-shell -F -t ${quoted(pane)} ${quoted(holds)} { ${lineOf(act)} } { ${lineOf(otherwise)} }`,
    );
    const [isThere, asked, ...done] = printed;
    if (!isThere || !asked || (done.length !== act.length && done.length !== otherwise.length))
      throw this.#end(new Error('tmux answered out of turn'));
    return done.flat();
  }

  async #answers(line: string): Promise<string[][]> {
    const blocks = await this.#send(line);
    const failed = blocks.find((block) => block.failed);
    if (failed) throw new Refusal('unreachable', `tmux: ${failed.lines.join(' ') || 'the command failed'}`);
    return blocks.map((block) => block.lines);
  }

  async close(): Promise<void> {
    if (!this.#gone) await this.#child.stdin.end();
    await this.#reading;
    await this.#child.exited;
  }

  #send(line: string): Promise<Block[]> {
    if (this.#gone) return Promise.reject(this.#gone);
    const marker = crypto.randomUUID();
    const { promise, resolve, reject } = Promise.withResolvers<Block[]>();
    this.#asked.push({ marker, blocks: [], resolve, reject });
    void this.#write(`${line}\ndisplay-message -p ${marker}\n`);
    return promise;
  }

  async #write(text: string): Promise<void> {
    try {
      await this.#child.stdin.write(text);
      await this.#child.stdin.flush();
    } catch {
      // tmux has ended, and says why on its way out.
    }
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = '';
    for await (const bytes of this.#child.stdout) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#take(line);
    }
    const said = (await new Response(this.#child.stderr).text()).trim();
    this.#end(new Refusal('unreachable', said ? `tmux: ${said}` : 'tmux closed the connection; is its server gone?'));
  }

  #take(line: string): void {
    const open = this.#open;
    if (open) {
      const failed = line === `%error ${open.head}`;
      if (!failed && line !== `%end ${open.head}`) return void open.block.lines.push(line);
      open.block.failed = failed;
      this.#open = null;
      // The first block belongs to the command line that started the client: its flag is 0.
      if (open.head.endsWith(' 1')) this.#finish(open.block);
    } else if (line.startsWith('%begin ')) this.#open = { head: line.slice(7), block: { lines: [], failed: false } };
    else if (!/^%[a-z]/.test(line) || /^%(end|error) /.test(line))
      this.#end(new Error('tmux said something between two answers'));
  }

  #finish(block: Block): void {
    const asked = this.#asked[0];
    if (!asked) return void this.#end(new Error('tmux answered what nobody asked'));
    if (block.lines.length !== 1 || block.lines[0] !== asked.marker) return void asked.blocks.push(block);
    this.#asked.shift();
    asked.resolve(asked.blocks);
  }

  #end(error: Error): Error {
    if (!this.#gone) {
      this.#gone = error;
      for (const asked of this.#asked.splice(0)) asked.reject(error);
      this.#child.kill();
    }
    return this.#gone;
  }
}

function lineOf(commands: readonly string[][]): string {
  return commands.map((words) => words.map(quoted).join(' ')).join(' ; ');
}

/** One word of a command line of tmux: nothing in it is expanded, and it stays on one line. */
function quoted(word: string): string {
  // oxlint-disable-next-line no-control-regex -- such a word would end the line.
  if (/[\u0000-\u001f\u007f]/.test(word))
    throw new Refusal('invalid_request', 'a word for tmux has no control characters');
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
