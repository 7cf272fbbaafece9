import * as v from 'valibot';
import type { Draft } from '../../protocol/message.ts';
import { AgentName, MessageId, SendKey } from '../../protocol/names.ts';
import { Schema } from '../../protocol/schema.ts';
import type { Described } from '../../protocol/schema.ts';
import { newSenderId } from '../../protocol/sender-id.ts';
import { isSameDeadline } from '../ledger/rules.ts';

/**
 * How far a letter came. `queued`: it never left this machine. `sending`: a process has it in hand. `unknown`: it may have
 * arrived, nobody answered. `refused`: the relay said no when its sender was no longer there to hear it.
 */
export type LetterState = 'queued' | 'sending' | 'unknown' | 'refused';

/** A draft on its way to a relay, as it stands in the outbox. */
export const Letter = new Schema(() =>
  v.object({
    v: v.literal(1),
    key: SendKey.inner,
    /** Its id from the first moment on. A relay of ours keeps it. Letters of older versions have none. */
    id: v.optional(MessageId.inner),
    from: AgentName.inner,
    /** When it was written: the order in which letters leave. */
    written: v.string(),
    /** What the relay is told, word for word. */
    content: v.looseObject({ to: v.string(), body: v.string() }),
    /** The key was the sender's own: a repeat of it must find this letter. */
    named: v.boolean(),
    /** When it first left without an answer: a relay that lost its memory since then must not take a repeat for news. */
    tried: v.optional(v.string()),
    why: v.optional(v.string()),
  }),
);
export type Letter = Described<typeof Letter>;

/** Our own fields are dropped by relays that do not know them. */
export function letterOf(from: AgentName, draft: Draft, written: string): Letter {
  const { to, body, priority, scope, thread, refs, intent, deadline, key } = draft;
  const id = newSenderId(from);
  return {
    v: 1,
    key: key ?? (id as string as SendKey),
    id,
    from,
    written,
    content: {
      to,
      body,
      priority,
      ...(scope && { scope }),
      ...(thread && { thread }),
      ...(refs?.length && { refs }),
      ...(intent !== 'none' && { intent }),
      ...(deadline && { deadline }),
    },
    named: key !== undefined,
  };
}

/** Two letters under one key must say the same, as two messages must. spec: message#keys */
export function saySame(one: Letter, other: Letter): boolean {
  return wordsOf(one) === wordsOf(other) && isSameDeadline(dueOf(one), dueOf(other));
}

function wordsOf({ content }: Letter): string {
  return JSON.stringify({ ...content, deadline: undefined });
}

function dueOf({ content: { deadline }, written }: Letter): { deadline: string | undefined; sent: string } {
  return { deadline: typeof deadline === 'string' ? deadline : undefined, sent: written };
}
