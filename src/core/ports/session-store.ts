import type { Choice, RecordPlace } from './session.ts';

/** One line of a session's history. Fields beside these come from files of an earlier ccc and are passed through. */
export interface SessionMessage {
  /** Unique over all sessions and processes, and increasing. */
  id: number;
  session: string;
  /** Unix seconds. */
  ts: number;
  from: 'human' | 'claude' | 'api';
  text: string;
  /** Who sent it through the API. */
  agent?: string;
  username?: string;
  type?: 'voice' | 'photo' | 'document';
  transcription?: string;
  caption?: string;
  path?: string;
  /** The update of a chat that brought it. */
  update_id?: number;
  /** The message that this one answers. */
  reply_to?: number;
  /** Of an answer: another prompt joined its turn, and it answers both. */
  shared?: true;
  /** Only where something went wrong. */
  status?: 'failed' | 'withdrawn' | 'interrupted';
  error?: string;
}

export type NewSessionMessage = Omit<SessionMessage, 'id'>;

/**
 * A prompt on its way. `queued`: nothing was typed. `submitting`: it was about to be typed; after a crash the client's record tells
 * whether it was. `submitted`: the client has it, in `turn`. The others are ends.
 */
export type PromptState = 'queued' | 'submitting' | 'submitted' | 'answered' | 'failed' | 'withdrawn';

export interface StoredPrompt {
  /** The id of its line in the history. */
  id: number;
  session: string;
  key: string;
  /** As it was sent; the driver prepares it when it is its turn. */
  text: string;
  raw: boolean;
  state: PromptState;
  /** When it was stored, ms. */
  at: number;
  /** After this (ms) it is not typed any more. */
  deadline: number | null;
  /** Where the record of the client ended before it was typed. */
  place: RecordPlace | null;
  turn: string | null;
  /** Why it still waits, or why it failed. */
  because: string | null;
}

/** What is remembered of a session between two runs of this program. */
export interface SessionBinding {
  /** The client's own id of its conversation. */
  conversation: string | null;
  /** Up to where its record was read. */
  place: RecordPlace | null;
}

/** What was chosen so far in one dialog: a choice or null for each of its questions. */
export interface KeptChoices {
  call: string;
  choices: (Choice | null)[];
}

export interface HistoryPage {
  session: string;
  /** Only ids greater than this, oldest first. Absent: the newest ones, oldest first. */
  after?: number | undefined;
  limit: number;
  from?: SessionMessage['from'] | undefined;
  /** The line with which the texts exceed this many bytes is the last one that is read. */
  bytes?: number | undefined;
}

/** A session has at most this many prompts without an end. */
export const MOST_OPEN = 1000;

/** What sessions were told and what they answered, and the prompts that are on their way. Every method commits or does nothing. */
export interface SessionStore {
  /** Stores a prompt and its line in the history. Throws a Refusal if the session has MOST_OPEN without an end. */
  enqueue(
    message: NewSessionMessage,
    prompt: { key: string; raw: boolean; at: number; deadline: number | null },
  ): Promise<StoredPrompt>;
  /**
   * Stores a line that is no prompt of ours: what a person typed, an answer to that, a choice. A `turn` of the client has one question and
   * one answer, however often they are recorded: later calls get the first line, also where that is a prompt of ours.
   */
  record(message: NewSessionMessage, turn?: string): Promise<SessionMessage>;
  /** Prompts without an end, oldest first. Of each text at most this many `characters`: all of them may be very long. */
  open(session?: string, characters?: number): Promise<StoredPrompt[]>;
  prompt(id: number): Promise<StoredPrompt | null>;
  /**
   * queued → submitting, on disk when it returns. False if it is no longer queued: it was withdrawn, or another process has it. Of many
   * that begin at once exactly one succeeds.
   */
  begin(id: number, place: RecordPlace): Promise<boolean>;
  /** submitting → queued: nothing was typed. */
  requeue(id: number, because: string): Promise<void>;
  /** → submitted. The turn may follow in a second call. An ended prompt stays as it is. */
  submitted(id: number, turn: string | null): Promise<void>;
  /** Stores the answer as a line of the history, and ends the prompt, at once. A prompt has one answer: later calls get the first. */
  answer(id: number, reply: NewSessionMessage): Promise<SessionMessage>;
  /** → failed or withdrawn, also in the history. False if it had ended before, or, for `withdrawn`, if it may have been typed. */
  end(id: number, as: 'failed' | 'withdrawn', because: string, status?: SessionMessage['status']): Promise<boolean>;
  history(page: HistoryPage): Promise<SessionMessage[]>;
  message(id: number): Promise<SessionMessage | null>;
  /** The answer to this message, or null. */
  replyTo(id: number): Promise<SessionMessage | null>;
  /** The newest line of a session. */
  last(session: string): Promise<SessionMessage | null>;
  binding(session: string): Promise<SessionBinding | null>;
  bind(session: string, binding: SessionBinding): Promise<void>;
  /** The choices that were kept last for a session. */
  choices(session: string): Promise<KeptChoices | null>;
  /** Keeps choices in place of earlier ones; null forgets them. */
  keepChoices(session: string, kept: KeptChoices | null): Promise<void>;
  /** Lines that are not in the history files yet, or changed since, in order. */
  unexported(limit: number): Promise<SessionMessage[]>;
  /** These lines are in the files as they are here. One whose status has changed meanwhile stays unexported. */
  exported(lines: readonly Pick<SessionMessage, 'id' | 'status'>[]): Promise<void>;
  /** Every line from now on gets an id greater than this: an earlier ccc used the ids up to it. Never lowers. */
  raiseIds(above: number): Promise<void>;
  /** The ids up to this one belong to files of an earlier ccc; null if nobody looked yet. */
  lastEarlierId(): Promise<number | null>;
}
