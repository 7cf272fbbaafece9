import * as z from 'zod/mini';
import { AgentName, MessageId, Scope, SendKey } from './names.ts';

/** What the sender wants of the reader. spec: message#intent */
export const Intent = z.enum(['none', 'question', 'assignment', 'approval', 'blocker', 'fyi', 'status', 'thanks']);
export type Intent = z.infer<typeof Intent>;

export const Priority = z.enum(['normal', 'urgent']);
export type Priority = z.infer<typeof Priority>;

/**
 * Where a message comes from in its exchange. Computed at send from the message it answers, never believed.
 * `stale` counts the hops since anything new was said. spec: message#lineage
 */
export const Lineage = z.object({
  root: MessageId,
  hop: z.int(),
  visited: z.array(z.string()),
  stale: z.int(),
});
export type Lineage = z.infer<typeof Lineage>;

/** Our own fields of a message, all under one key with a version. spec: message#extras */
export const Extras = z.object({
  v: z.literal(1),
  key: z.optional(SendKey),
  intent: z.optional(Intent),
  deadline: z.optional(z.iso.datetime()),
  lineage: z.optional(Lineage),
});
export type Extras = z.infer<typeof Extras>;

/**
 * A message as it stands on disk and on the wire. Files are written by other programs too: what can be
 * missing there gets its default here, and fields we do not know are kept. spec: message#message
 */
export const Message = z.looseObject({
  id: MessageId,
  from: z.string(),
  to: z.string(),
  body: z.catch(z.string(), ''),
  priority: z.catch(Priority, 'normal'),
  scope: z.catch(z.optional(z.string()), undefined),
  thread: z.catch(z.optional(z.string()), undefined),
  refs: z.catch(z.optional(z.array(z.string())), undefined),
  ts: z.catch(z.iso.datetime({ offset: true }), '1970-01-01T00:00:00.000Z'),
  parley: z.catch(z.optional(Extras), undefined),
});
export type Message = z.infer<typeof Message>;

/** The largest body that is accepted unless the user sets another limit (bytes of UTF-8). spec: message#limits */
export const BODY_LIMIT = 256 * 1024;

/** What a sender hands in; everything else about a message is decided by us. spec: message#draft */
export const Draft = z.object({
  to: z.string().check(z.minLength(1, 'name a recipient: @agent or #channel')),
  body: z.string(),
  priority: z._default(Priority, 'normal'),
  scope: z.optional(Scope),
  thread: z.optional(MessageId),
  refs: z.optional(z.array(z.string().check(z.maxLength(2048), z.regex(/^[^\p{Cc}]+$/u, 'use one line')))),
  intent: z._default(Intent, 'none'),
  deadline: z.optional(z.iso.datetime()),
  key: z.optional(SendKey),
  /** When this key was first tried: lets a rebuilt ledger say "unknown" instead of storing it a second time. */
  firstTried: z.optional(z.iso.datetime()),
});
export type Draft = z.infer<typeof Draft>;

/** Builds the stored form, in the key order that other programs write. spec: message#order */
export function composeMessage(
  draft: Draft,
  stamp: { id: MessageId; from: AgentName; ts: string; lineage?: Lineage | undefined },
): Message {
  const { scope, thread, refs, intent, deadline, key } = draft;
  const extras: Extras = {
    v: 1,
    ...(key && { key }),
    ...(intent !== 'none' && { intent }),
    ...(deadline && { deadline }),
    ...(stamp.lineage && { lineage: stamp.lineage }),
  };
  return {
    id: stamp.id,
    from: stamp.from,
    to: draft.to,
    body: draft.body,
    priority: draft.priority,
    ...(scope && { scope }),
    ...(thread && { thread }),
    ...(refs?.length && { refs }),
    ts: stamp.ts,
    // A plain message carries nothing of ours: byte for byte what the original writes.
    ...(Object.keys(extras).length > 1 && { parley: extras }),
  };
}
