import * as v from 'valibot';
import type { Draft, Message } from '../message.ts';
import { AgentName, MessageId, SendKey } from '../names.ts';
import type { Refusal } from '../refusal.ts';
import { Schema } from '../schema.ts';
import type { Described } from '../schema.ts';

/** The message that the other side has accepted. `first` is false if it already knew the key. */
export interface Posted {
  message: Message;
  first: boolean;
}

/** A message that waits in the outbox, and its state. */
export interface OutboxRow {
  outgoing: OutgoingMessage;
  state: OutgoingState;
}

/** A home on another machine. The other side decides who gets a copy. */
export interface Remote {
  /** The address of the other side, for people. */
  readonly url: string;
  /**
   * Sends a draft. Throws a Refusal `queued` if the draft never left this machine and the outbox will send it later; throws
   * `outcome_unknown` if it may have arrived and was not answered.
   */
  post(from: AgentName, draft: Draft): Promise<Posted>;
  /** Fetches the wanted messages that wait at the other side. From then on they wait on this machine. Returns how many. */
  bring(mailbox: AgentName, wanted: (message: Message) => boolean, patienceMs?: number): Promise<number>;
  /** The other side's evidence for a message; null if it gives none. */
  trace(id: MessageId): Promise<unknown>;
  /** The messages that were written and are not known to have arrived, oldest first. */
  outbox(): Promise<OutboxRow[]>;
  /** Sends all messages of the outbox that need no decision of the user. Returns why messages could not be sent, or null. */
  sendOutbox(): Promise<Refusal | null>;
  /** Sends one message of the outbox again, by its key or id, even if it may have arrived. */
  retry(name: string): Promise<Posted>;
  /** Deletes one message of the outbox. */
  drop(name: string): Promise<void>;
  /** The ids that the other side gave to messages whose ids in the outbox began with `prefix`. */
  sentAs(prefix: string): Promise<MessageId[]>;
  /** The id under which a message was queued here, if the other side gave it another. */
  queuedAs(id: MessageId): Promise<MessageId | undefined>;
}

/**
 * The state of a message in the outbox. `queued`: it never left this machine. `sending`: a process is sending it. `unknown`: it may have
 * arrived, but the relay did not answer. `refused`: the relay refused it after its sender had gone.
 */
export type OutgoingState = 'queued' | 'sending' | 'unknown' | 'refused';

/** A draft on its way to a relay, as it is in the outbox. */
export const OutgoingMessage = new Schema(() =>
  v.object({
    v: v.literal(1),
    key: SendKey.inner,
    /** The id of the message. A Parley relay keeps it. Messages of older versions have none. */
    id: v.optional(MessageId.inner),
    from: AgentName.inner,
    /** When it was written. Messages are sent in this order. */
    written: v.string(),
    /** The request to the relay, word for word. */
    content: v.looseObject({ to: v.string(), body: v.string() }),
    /** The sender chose the key, so a send with the same key must find this message. */
    named: v.boolean(),
    /** When it was first sent without an answer: a relay whose journal was rebuilt since then must not store a repeat as a new message. */
    tried: v.optional(v.string()),
    why: v.optional(v.string()),
  }),
);
export type OutgoingMessage = Described<typeof OutgoingMessage>;
