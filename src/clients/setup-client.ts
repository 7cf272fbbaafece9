import { basename } from 'node:path';
import { SECTION } from './backchannel-words.ts';
import type { Wish } from './settings/apply.ts';

/** The command by which a client starts this program in Backchannel's dialect: a program that stays where it is, and its first words. */
export interface OwnCommand {
  program: string;
  words: readonly string[];
}

/** A client to which mail can be added by its settings. */
export interface SetupClient {
  /** As the established program calls it in what it prints. */
  harness: string;
  /** Its program: a client is there if its folder is, or if this is on the search path. */
  binary: string;
  /** The folder of its settings in a home. */
  folder: string;
  /** The variable by which a user moves that folder. */
  moved?: string;
  /** What it needs, as it is said when it is done, and when it is there. */
  steps(place: { home: string; folder: string; isMoved: boolean }, own: OwnCommand): Step[];
}

/** One file to be changed, and what is said about it. */
export interface Step extends Wish {
  done: string;
  there: string;
}

/** What is said of the server that a client starts for its tools. */
export function serverSaid(path: string): Pick<Step, 'by' | 'what' | 'done' | 'there'> {
  return {
    by: 'bch',
    what: 'MCP server',
    done: `${path} starts the mail tools from now on`,
    there: 'the mail tools are already registered',
  };
}

/** The part of a client's file of instructions that tells its model of the mailbox. */
export function sectionStep(path: string, owner: string): Step {
  return {
    by: 'bch',
    path,
    owner,
    what: 'section on mail',
    content: { format: 'markdown', block: SECTION },
    isThere: (text) => /backchannel/i.test(text),
    done: `${path} has a section on mail from now on`,
    there: `a section on mail is already present in ${basename(path)}`,
  };
}
