import * as v from 'valibot';
import { Schema } from './schema.ts';
import type { Described } from './schema.ts';
import { Directedness } from './attention/attention.ts';
import { AgentName, MessageId, Scope, SendKey } from './names.ts';
import { Signal } from './signal.ts';

/** What the sender wants from the reader. spec: message#intent */
const INTENTS = ['none', 'question', 'assignment', 'approval', 'blocker', 'fyi', 'status', 'thanks'] as const;
export const Intent = new Schema(() => v.picklist(INTENTS));
export type Intent = Described<typeof Intent>;

export const Priority = new Schema(() => v.picklist(['normal', 'urgent']));
export type Priority = Described<typeof Priority>;

/**
 * The place of a message in its exchange. Computed at send from the message that it answers; a value from the sender is ignored.
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

/** An obligation: work is blocked until the message is answered, and time alone never ends it. spec: c2a#obligations */
export const Blocking = new Schema(() =>
  v.object({
    blocks: v.picklist(['halted', 'degraded', 'none']),
    /** What the author will do if nobody answers. */
    defaultAction: v.optional(v.pipe(v.string(), v.maxLength(500))),
    /** The agent that may discharge the obligation, besides the author. */
    delegate: v.optional(AgentName.inner),
  }),
);
export type Blocking = Described<typeof Blocking>;

/** Where and how a held text is sent if a person agrees: by its author, under the author's own key. spec: c2a#private */
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

/** Describes one of the refs of a message: a file, a picture or anything else that came with it. spec: message#extras */
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

/** The fields of our own that a draft and a message share. spec: message#extras */
const said = () => ({
  /** The message is a reaction to the one that `thread` names. */
  signal: v.optional(Signal.inner),
  eta: v.optional(v.pipe(v.string(), v.maxLength(200))),
  /** The agent whose obligation a reaction of the author or delegate is about. */
  recipient: v.optional(AgentName.inner),
  /** The message replaces this earlier one of the same author. */
  replaces: v.optional(MessageId.inner),
  obligation: v.optional(Blocking.inner),
  /** The directedness that the sender means. With `ambient` a name in the text addresses nobody. */
  aim: v.optional(Directedness.inner),
  /** The message was written in a conversation of a surface with restricted access. */
  private: v.optional(v.literal(true)),
  /** The body is the final text of a turn, which its author did not send itself. */
  captured: v.optional(v.literal(true)),
  /** The names that the message mentions, as a surface gives them. Names in the text then do not count. */
  mentions: v.optional(v.array(AgentName.inner)),
  attachments: v.optional(v.array(Attachment.inner)),
  /** The platform's id of the conversation in which the message was written, if that is not a channel here. */
  conversation: v.optional(v.string()),
  /** The message asks a person whether its text may be sent. Says where and how it is then sent. */
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
 * A message as it is on disk and on the wire. Other programs write files too: a missing field gets its default here, and unknown fields are
 * left out. spec: message#message
 */
export const Message = new Schema(() =>
  v.object({
    id: MessageId.inner,
    from: v.string(),
    to: v.string(),
    body: v.fallback(v.string(), ''),
    // Other programs may write other words. They are kept, but only `urgent` has a meaning.
    priority: v.fallback(v.string(), 'normal'),
    scope: v.fallback(v.optional(v.string()), undefined),
    thread: v.fallback(v.optional(v.string()), undefined),
    refs: v.fallback(v.optional(v.array(v.string())), undefined),
    ts: v.fallback(v.pipe(v.string(), v.isoTimestamp()), '1970-01-01T00:00:00.000Z'),
    parley: v.fallback(v.optional(Extras.inner), undefined),
  }),
);
export type Message = Described<typeof Message>;

/** Parses a message from any source. Null if it is not a message, or is nested too deeply. */
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

/** Does a text consist only of blanks, line ends and invisible characters? */
export function isBlank(text: string): boolean {
  return /^[\s\p{Cc}\p{Cf}]*$/u.test(text);
}

/** The part of a message that its sender decides. Parley decides the rest. spec: message#draft */
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
    /** When this key was first tried. A rebuilt journal then refuses with "unknown" instead of storing the message a second time. */
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
  // A plain message has no fields of our own: it is byte for byte what the original writes.
  if (Object.keys(extras).length > 1) message.parley = extras;
  return message as Message;
}

/** How deep a value of another program may be nested. A deeper one can be parsed, but not written again. */
const DEEPEST = 100;

export function isTooDeep(value: unknown, levels = DEEPEST): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isTooDeep(one, levels - 1));
}
