import { readFileSync } from 'node:fs';
import type { Options, Running } from '../../support/bch.ts';
import type { McpClient } from '../../support/mcp.ts';
import type { Run } from '../../support/program.ts';
import { PeerMachine } from './peer.ts';
import type { Brand } from './peer.ts';

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.source;

/**
 * What several people with one program hear at one relay, in order. Each has a machine of their own. What no two runs have in
 * common is masked: addresses, tokens, times; an id is the how-manyth it is, so that it can be seen again.
 */
export class Transcript {
  readonly #machines = new Map<string, PeerMachine>();
  readonly #ids: string[] = [];
  readonly #masks = new Map<string, string>();
  #text = '';

  constructor(
    readonly brand: Brand,
    readonly url: string,
  ) {
    this.mask(url, 'RELAY');
  }

  get text(): string {
    return this.#text;
  }

  /** This word stands for that text from now on. */
  mask(text: string, word: string): void {
    this.#masks.set(text, word);
  }

  machine(who: string): PeerMachine {
    const machine = this.#machines.get(who) ?? new PeerMachine();
    this.#machines.set(who, machine);
    return machine;
  }

  /** One person's commands. */
  of(who: string): (...args: string[]) => Promise<Run> {
    return (...args) => this.does(who, args);
  }

  async does(who: string, args: string[], options: Options = {}): Promise<Run> {
    const run = await this.machine(who).run(this.brand, args, options);
    this.#add(`${titleOf(who, args, options)}\n${run.out}${run.err}= ${run.code}\n`);
    return run;
  }

  /** Something that goes on until it is told to end. */
  begins(who: string, args: string[]): Running {
    return this.machine(who).begin(this.brand, args);
  }

  /** Ends it, and tells what it said. With which code it ends is not told: it was killed. */
  async ends(who: string, args: string[], running: Running): Promise<void> {
    const { out, err } = await running.stop();
    // Ours lets a command end that it runs, and says so if that is not over yet.
    this.#add(`${titleOf(who, args)}\n${out}${err.replace(/^stopping when the command has ended.*\n/m, '')}`);
  }

  async calls(client: McpClient, tool: string, given: object = {}): Promise<void> {
    const { text, isError } = await client.call(tool, given);
    this.#add(`> ${tool} ${JSON.stringify(given)}\n${text}\n= ${isError ? 'an error' : 'ok'}\n`);
  }

  tells(text: string): void {
    this.#add(`${text}\n`);
  }

  /** A file below somebody’s `.backchannel`. */
  shows(who: string, file: string): void {
    this.#add(`${who}’s ${file}: ${readFileSync(`${this.machine(who).root}/${file}`, 'utf8')}\n`);
  }

  #add(text: string): void {
    this.#text += this.#masked(text);
  }

  #masked(text: string): string {
    let masked = text;
    for (const [plain, word] of this.#masks) masked = masked.replaceAll(plain, word);
    return masked
      .replaceAll(/bch1-[\w-]+/g, 'INVITE')
      .replaceAll(/[0-9a-f]{64}/g, 'TOKEN')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replaceAll(new RegExp(`${UUID}|\\b[0-9a-f]{8}\\b`, 'g'), (id) => this.#numbered(id));
  }

  #numbered(id: string): string {
    const short = id.slice(0, 8);
    if (!this.#ids.includes(short)) this.#ids.push(short);
    return `${id.length > 8 ? 'ID' : 'id'}${this.#ids.indexOf(short) + 1}`;
  }
}

function titleOf(who: string, args: string[], { as, env = {} }: Options = {}): string {
  const set = Object.entries({ ...(as && { BACKCHANNEL_AGENT: as }), ...env });
  return [`${who}$`, ...set.map(([name, value]) => `${name}=${value}`), 'bch', ...args].join(' ');
}
