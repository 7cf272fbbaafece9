import type { Choice, RecordPlace } from './session.ts';

/** One line of a session's history. Other fields come from files of an earlier ccc and are passed through. */
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
  /** The id of the chat update that contained the message. */
  update_id?: number;
  /** The message that this one answers. */
  reply_to?: number;
  /** For an answer: another prompt joined the turn, and this line answers both. */
  shared?: true;
  /** Set only if something went wrong. */
  status?: 'failed' | 'withdrawn' | 'interrupted';
  error?: string;
}

export type NewSessionMessage = Omit<SessionMessage, 'id'>;

/**
 * The state of a prompt. `queued`: nothing was typed. `submitting`: it was about to be typed; after a crash the client's record tells
 * whether it was. `submitted`: the client has it, in `turn`. The other three are final.
 */
export type PromptState = 'queued' | 'submitting' | 'submitted' | 'answered' | 'failed' | 'withdrawn';

export interface StoredPrompt {
  /** The id of its line in the history. */
  id: number;
  session: string;
  key: string;
  /** The text as it was sent. The driver prepares it just before it is typed. */
  text: string;
  raw: boolean;
  state: PromptState;
  /** When it was stored, ms. */
  at: number;
  /** The time (ms) after which the prompt is not typed any more. */
  deadline: number | null;
  /** Where the client's record ended before the prompt was typed. */
  place: RecordPlace | null;
  turn: string | null;
  /** Why the prompt still waits, or why it failed. */
  because: string | null;
}

/** What the store remembers of a session between two runs of this program. */
export interface SessionBinding {
  /** The client's own id of its conversation. */
  conversation: string | null;
  /** The place up to which its record was read. */
  place: RecordPlace | null;
}

/** The choices so far in one dialog: a choice or null for each of its questions. */
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
  /** Reading stops after the line with which the texts exceed this many bytes. */
  bytes?: number | undefined;
}

/** The most open prompts that a session may have. */
export const MOST_OPEN = 1000;

/** The history of sessions, and their open prompts. Every method commits or does nothing. */
export interface SessionStore {
  /** Stores a prompt and its line in the history. Throws a Refusal if the session already has MOST_OPEN open prompts. */
  enqueue(
    message: NewSessionMessage,
    prompt: { key: string; raw: boolean; at: number; deadline: number | null },
  ): Promise<StoredPrompt>;
  /**
   * Stores a line that is not a prompt of ours: what a person typed, the answer to that, or a choice. A `turn` of the client has one question
   * and one answer, however often they are recorded: later calls get the first line, also if that line is a prompt of ours.
   */
  record(message: NewSessionMessage, turn?: string): Promise<SessionMessage>;
  /** Open prompts, oldest first, each with at most `characters` of its text: texts may be very long. */
  open(session?: string, characters?: number): Promise<StoredPrompt[]>;
  prompt(id: number): Promise<StoredPrompt | null>;
  /**
   * queued → submitting, on disk when it returns. False if the prompt is no longer queued: it was withdrawn, or another process has it. Of
   * many calls at the same time exactly one succeeds.
   */
  begin(id: number, place: RecordPlace): Promise<boolean>;
  /** submitting → queued: nothing was typed. */
  requeue(id: number, because: string): Promise<void>;
  /** → submitted. A second call may add the turn. An ended prompt does not change. */
  submitted(id: number, turn: string | null): Promise<void>;
  /** Stores the answer as a line of the history and ends the prompt, in one commit. A prompt has one answer: later calls get the first. */
  answer(id: number, reply: NewSessionMessage): Promise<SessionMessage>;
  /** → failed or withdrawn, also in the history. False if the prompt had ended before, or, for `withdrawn`, if it may have been typed. */
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
  /** Replaces the kept choices; null deletes them. */
  keepChoices(session: string, kept: KeptChoices | null): Promise<void>;
  /** Lines that are not in the history files yet or have changed since, in order. */
  unexported(limit: number): Promise<SessionMessage[]>;
  /** Marks these lines as written to the files. A line whose status has changed meanwhile stays unexported. */
  exported(lines: readonly Pick<SessionMessage, 'id' | 'status'>[]): Promise<void>;
  /** Every later line gets an id greater than `above`, because an earlier ccc used the ids up to it. Never lowers the next id. */
  raiseIds(above: number): Promise<void>;
  /** The last id that belongs to files of an earlier ccc; null if those files were not read yet. */
  lastEarlierId(): Promise<number | null>;
}
