import * as v from 'valibot';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';
import { Directedness } from './attention/attention.ts';
import { AgentName, MessageId, Scope, SendKey } from './names.ts';
import { Signal } from './signal.ts';

/** What the sender wants of the reader. spec: message#intent */
const INTENTS = ['none', 'question', 'assignment', 'approval', 'blocker', 'fyi', 'status', 'thanks'] as const;
export const Intent = new Schema(() => v.picklist(INTENTS));
export type Intent = Described<typeof Intent>;

export const Priority = new Schema(() => v.picklist(['normal', 'urgent']));
export type Priority = Described<typeof Priority>;

/**
 * Where a message comes from in its exchange. Computed at send from the message it answers, never believed.
 * `stale` counts the hops since the last checkable fact, `echoes` the echoes in a row that end with this message. spec: message#lineage
 */
export const Lineage = new Schema(() =>
  v.object({
    root: MessageId.inner,
    hop: v.pipe(v.number(), v.integer()),
    visited: v.array(v.string()),
    stale: v.pipe(v.number(), v.integer()),
    echoes: v.optional(v.pipe(v.number(), v.integer())),
  }),
);
export type Lineage = Described<typeof Lineage>;

/** Work that is blocked until this is answered: an obligation that time alone never ends. spec: c2a#obligations */
export const Blocking = new Schema(() =>
  v.object({
    blocks: v.picklist(['halted', 'degraded', 'none']),
    /** What the author will do if nobody answers. */
    defaultAction: v.optional(v.pipe(v.string(), v.maxLength(500))),
    /** Who besides the author may discharge it. */
    delegate: v.optional(AgentName.inner),
  }),
);
export type Blocking = Described<typeof Blocking>;

/** What waits for a person's yes: then its text is said there, by its author and under the author's key. spec: c2a#private */
const Held = new Schema(() =>
  v.object({
    to: v.string(),
    key: SendKey.inner,
    thread: v.optional(MessageId.inner),
    intent: v.optional(Intent.inner),
    priority: v.optional(Priority.inner),
    aim: v.optional(Directedness.inner),
  }),
);

/** A file, picture or anything else that came with a message: what one of its refs is. spec: message#extras */
export const Attachment = new Schema(() =>
  v.object({
    type: v.pipe(v.string(), v.regex(/^[a-z][a-z0-9_-]{0,31}$/, 'use one word such as image or file')),
    ref: v.string(),
    label: v.optional(v.string()),
    mimeType: v.optional(v.string()),
    size: v.optional(v.number()),
  }),
);
export type Attachment = Described<typeof Attachment>;

/** What makes a message more than words: a reaction, an edit, an obligation, a word on whom it is meant for. spec: message#extras */
const said = () => ({
  /** It is a reaction to the message that it answers (`thread`). */
  signal: v.optional(Signal.inner),
  eta: v.optional(v.pipe(v.string(), v.maxLength(200))),
  /** Whose obligation a `done` ends, if the author or delegate says so. */
  recipient: v.optional(AgentName.inner),
  /** It takes the place of this earlier message of the same author. */
  replaces: v.optional(MessageId.inner),
  obligation: v.optional(Blocking.inner),
  /** Whom the sender means: with `ambient` a name in the text calls nobody. */
  aim: v.optional(Directedness.inner),
  /** It was said where a surface lets only some in. */
  private: v.optional(v.literal(true)),
  /** It is the final text of a turn, which its author did not send itself. */
  captured: v.optional(v.literal(true)),
  /** Whom it calls, as a surface says: then a name in the text calls nobody. */
  mentions: v.optional(v.array(AgentName.inner)),
  attachments: v.optional(v.array(Attachment.inner)),
  /** The platform's id of the conversation in which it was written, where that is no channel here. */
  conversation: v.optional(v.string()),
  /** It asks whether its text may be said: where and how that is then done. */
  held: v.optional(Held.inner),
});

/** Our own fields of a message, all under one key with a version. spec: message#extras */
export const Extras = new Schema(() =>
  v.object({
    v: v.literal(1),
    key: v.optional(SendKey.inner),
    intent: v.optional(Intent.inner),
    deadline: v.optional(v.pipe(v.string(), v.isoTimestamp())),
    lineage: v.optional(Lineage.inner),
    ...said(),
  }),
);
export type Extras = Described<typeof Extras>;

/**
 * A message as it is on disk and on the wire. Files are written by other programs too: what can be
 * missing there gets its default here, and fields we do not know are left out. spec: message#message
 */
export const Message = new Schema(() =>
  v.object({
    id: MessageId.inner,
    from: v.string(),
    to: v.string(),
    body: v.fallback(v.string(), ''),
    // Other programs may write other words: they are passed on, and only `urgent` means anything.
    priority: v.fallback(v.string(), 'normal'),
    scope: v.fallback(v.optional(v.string()), undefined),
    thread: v.fallback(v.optional(v.string()), undefined),
    refs: v.fallback(v.optional(v.array(v.string())), undefined),
    ts: v.fallback(v.pipe(v.string(), v.isoTimestamp()), '1970-01-01T00:00:00.000Z'),
    parley: v.fallback(v.optional(Extras.inner), undefined),
  }),
);
export type Message = Described<typeof Message>;

/** A message from anywhere, or null. */
export function readMessage(value: unknown): Message | null {
  const message = isTooDeep(value) ? null : Message.safeParse(value);
  return message?.success ? message.data : null;
}

/** Oldest first, by the text of their times. */
export function byTime(a: Pick<Message, 'ts'>, b: Pick<Message, 'ts'>): number {
  return a.ts < b.ts ? -1 : a.ts > b.ts ? 1 : 0;
}

/** The largest body that is accepted unless the user sets another limit (bytes of UTF-8). spec: message#limits */
export const BODY_LIMIT = 256 * 1024;

/** Does a text say nothing: only blanks, line ends and characters that nobody sees? */
export function isBlank(text: string): boolean {
  return /^[\s\p{Cc}\p{Cf}]*$/u.test(text);
}

/** What a sender hands in; everything else about a message is decided by us. spec: message#draft */
export const Draft = new Schema(() =>
  v.object({
    to: v.pipe(v.string(), v.minLength(1, 'name a recipient: @agent or #channel')),
    body: v.string(),
    priority: v.optional(Priority.inner, 'normal'),
    scope: v.optional(Scope.inner),
    thread: v.optional(MessageId.inner),
    refs: v.optional(v.array(v.pipe(v.string(), v.maxLength(2048), v.regex(/^[^\p{Cc}]+$/u, 'use one line')))),
    intent: v.optional(Intent.inner, 'none'),
    deadline: v.optional(v.pipe(v.string(), v.isoTimestamp())),
    key: v.optional(SendKey.inner),
    /** When this key was first tried: lets a rebuilt journal say "unknown" instead of storing it a second time. */
    firstTried: v.optional(v.pipe(v.string(), v.isoTimestamp())),
    ...said(),
  }),
);
export type Draft = Described<typeof Draft>;

/** Builds the stored form, in the key order that other programs write. spec: message#order */
export function composeMessage(
  draft: Draft,
  stamp: { id: MessageId; from: AgentName; ts: string; lineage?: Lineage | undefined },
): Message {
  const { scope, thread, refs, intent, deadline, key, signal, eta, recipient, replaces, obligation, aim } = draft;
  const extras: Extras = { v: 1 };
  if (key) extras.key = key;
  if (intent !== 'none') extras.intent = intent;
  if (deadline) extras.deadline = deadline;
  if (stamp.lineage) extras.lineage = stamp.lineage;
  if (signal) extras.signal = signal;
  if (eta) extras.eta = eta;
  if (recipient) extras.recipient = recipient;
  if (replaces) extras.replaces = replaces;
  if (obligation) extras.obligation = obligation;
  if (aim) extras.aim = aim;
  if (draft.private) extras.private = true;
  if (draft.captured) extras.captured = true;
  if (draft.mentions) extras.mentions = draft.mentions;
  if (draft.attachments?.length) extras.attachments = draft.attachments;
  if (draft.conversation !== undefined) extras.conversation = draft.conversation;
  if (draft.held) extras.held = draft.held;
  const message: Partial<Message> = {
    id: stamp.id,
    from: stamp.from,
    to: draft.to,
    body: draft.body,
    priority: draft.priority,
  };
  if (scope) message.scope = scope;
  if (thread) message.thread = thread;
  if (refs?.length) message.refs = refs;
  message.ts = stamp.ts;
  // A plain message carries nothing of ours: byte for byte what the original writes.
  if (Object.keys(extras).length > 1) message.parley = extras;
  return message as Message;
}

/** How deep the fields of what another program wrote may be nested. What is deeper can be read, but not written again. */
const DEEPEST = 100;

export function isTooDeep(value: unknown, levels = DEEPEST): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isTooDeep(one, levels - 1));
}
