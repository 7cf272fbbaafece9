import * as v from 'valibot';
import type { Draft, Message } from '../message.ts';
import { AgentName, MessageId, SendKey } from '../names.ts';
import type { Refusal } from '../refusal.ts';
import { Schema } from '../schema.ts';
import type { Described } from '../schema.ts';

/** A draft that the other side has accepted. `first` is false if it knew the key. */
export interface Posted {
  message: Message;
  first: boolean;
}

/** What waits in the outbox, and why. */
export interface OutboxRow {
  outgoing: OutgoingMessage;
  state: OutgoingState;
}

/** What a home on another machine can do that a folder cannot: there, the other side decides who gets a copy. */
export interface Remote {
  /** Its address, for people. */
  readonly url: string;
  /**
   * Hands a draft over. What never left this machine is refused as `queued` and sent later, where there is an outbox; what may
   * have arrived and was not answered is refused as `outcome_unknown`.
   */
  post(from: AgentName, draft: Draft): Promise<Posted>;
  /** Fetches what is wanted and waits there: from now on it waits on this machine. Returns how many. */
  bring(mailbox: AgentName, wanted: (message: Message) => boolean, patienceMs?: number): Promise<number>;
  /** What the other side can prove of a message; null if it does not say. */
  trace(id: MessageId): Promise<unknown>;
  /** What was written and is not known to have arrived, oldest first. */
  outbox(): Promise<OutboxRow[]>;
  /** Sends all of them that may be sent without asking anybody. Returns what keeps them from leaving, null if nothing does. */
  sendOutbox(): Promise<Refusal | null>;
  /** Sends one of them once more, by its key or id, even if it may have arrived. */
  retry(name: string): Promise<Posted>;
  /** Forgets one of them. */
  drop(name: string): Promise<void>;
  /** The ids that the other side gave to what was queued here under an id that begins so. */
  sentAs(prefix: string): Promise<MessageId[]>;
  /** The id under which a message was queued here, if the other side gave it another. */
  queuedAs(id: MessageId): Promise<MessageId | undefined>;
}

/**
 * How far a message came. `queued`: it never left this machine. `sending`: a process is sending it. `unknown`: it may have
 * arrived, nobody answered. `refused`: the relay said no when its sender was no longer there to hear it.
 */
export type OutgoingState = 'queued' | 'sending' | 'unknown' | 'refused';

/** A draft on its way to a relay, as it is in the outbox. */
export const OutgoingMessage = new Schema(() =>
  v.object({
    v: v.literal(1),
    key: SendKey.inner,
    /** Its id from the first moment on. A relay of ours keeps it. Messages of older versions have none. */
    id: v.optional(MessageId.inner),
    from: AgentName.inner,
    /** When it was written: the order in which messages leave. */
    written: v.string(),
    /** What the relay is told, word for word. */
    content: v.looseObject({ to: v.string(), body: v.string() }),
    /** The key was the sender's own: a repeat of it must find this message. */
    named: v.boolean(),
    /** When it first left without an answer: a relay that lost its memory since then must not take a repeat for news. */
    tried: v.optional(v.string()),
    why: v.optional(v.string()),
  }),
);
export type OutgoingMessage = Described<typeof OutgoingMessage>;
