import * as v from 'valibot';
import { Attention, Directedness, Injection, Policy, Reason } from '../../core/attention/attention.ts';
import { Attachment, Intent, Blocking, Priority } from '../../core/message.ts';
import { AgentName, ChannelName, MessageId, SendKey } from '../../core/names.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';
import { Meaning, Signal } from '../../core/signal.ts';

/** The drafts that we support, the preferred one first. spec: host#initialize */
export const PROTOCOL_VERSIONS = ['2026-08-11', '2026-06-24', '2026-06-02'] as const;
export type ProtocolVersion = (typeof PROTOCOL_VERSIONS)[number];

const flag = v.optional(v.boolean(), false);
const page = { limit: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(200)), 20) };
const text = v.pipe(v.string(), v.minLength(1));

/** What a peer can do. A capability that it does not name is off. spec: host#capabilities */
export const Capabilities = new Schema(() =>
  v.object({
    delivery: v.optional(v.object({ ack: flag, redelivery: flag, idempotency: flag }), {}),
    injection: v.optional(
      v.object({ immediate: flag, buffered: flag, notify: flag, tool_mailbox: flag, digest: flag, interrupt: flag }),
      {},
    ),
    chatTools: v.optional(
      v.object({
        readThread: flag,
        sendMessage: flag,
        react: flag,
        reactionSignals: flag,
        claim: flag,
        defer: flag,
        resolve: flag,
      }),
      {},
    ),
    utilities: v.optional(v.object({ progress: flag, cancellation: flag, logging: flag }), {}),
    /** The workspace's own emoji for the signals. */
    glyphs: v.optional(v.record(v.string(), v.string())),
  }),
);
export type Capabilities = Described<typeof Capabilities>;

/** Harness: runs models and gets events. Surface: shows chat and posts what people write. A peer has one role. */
export const PeerRole = new Schema(() => v.picklist(['harness', 'surface']));
export type PeerRole = Described<typeof PeerRole>;

export const Initialize = new Schema(() =>
  v.object({
    protocolVersion: text,
    clientInfo: v.object({ name: text, version: text }),
    capabilities: Capabilities.inner,
    role: v.optional(PeerRole.inner, 'harness'),
  }),
);
export type Initialize = Described<typeof Initialize>;

/** Binds a session to the mailboxes that it reads. Continuing an earlier session needs its token. spec: host#bind */
export const Bind = new Schema(() =>
  v.object({
    sessionId: v.pipe(v.string(), v.regex(/^[A-Za-z0-9._-]{1,64}$/, 'use letters, digits, . _ -')),
    /** The token of an earlier session, or one that the harness chose for a new session. */
    token: v.optional(v.pipe(v.string(), v.minLength(32, 'use at least 32 characters'), v.maxLength(200))),
    identities: v.array(AgentName.inner),
    roles: v.optional(v.array(AgentName.inner), []),
    streams: v.optional(v.array(ChannelName.inner), []),
    threads: v.optional(v.array(MessageId.inner), []),
    /** `loud`: events that a model may see. `all`: also those that only wait in the mailbox or are silent. */
    deliver: v.optional(v.picklist(['loud', 'all']), 'loud'),
  }),
);
export type Bind = Described<typeof Bind>;

export const Turn = new Schema(() =>
  v.object({
    sessionId: text,
    state: v.picklist(['started', 'boundary', 'ended', 'failed']),
    eventIds: v.optional(v.array(MessageId.inner), []),
    finalText: v.optional(v.string()),
  }),
);
export type Turn = Described<typeof Turn>;

/** A harness asks for a quieter mode than the host chose, with its reason. It cannot ask for a louder one. spec: host#quieter */
export const Quieter = new Schema(() =>
  v.object({
    sessionId: v.optional(text),
    eventId: MessageId.inner,
    mode: Injection.inner,
    reason: v.picklist(['busy', 'not_owner', 'duplicate', 'safety']),
  }),
);
export type Quieter = Described<typeof Quieter>;

/** The request for either open set: what the agents of a session owe, or what they wait for. spec: host#open-set */
export const OpenSet = new Schema(() => v.object({ sessionId: v.optional(text), ...page }));
export type OpenSet = Described<typeof OpenSet>;

export const ContextReset = new Schema(() => v.object({ sessionId: text }));

export const Cancelled = new Schema(() =>
  v.object({ requestId: v.union([text, v.number()]), reason: v.optional(v.string(), '') }),
);

export const Progress = new Schema(() =>
  v.object({
    progressToken: text,
    progress: v.number(),
    total: v.optional(v.number()),
    message: v.optional(v.string()),
    sessionId: v.optional(text),
  }),
);
export type Progress = Described<typeof Progress>;

/** The arguments of the seven tools. A call's `sessionId` names one session of the connection. spec: host#tools */
export const TOOLS = {
  'chat.list_events': new Schema(() =>
    v.object({
      stream: v.optional(v.string()),
      conversation: v.optional(v.string()),
      policy: v.optional(Policy.inner),
      since: v.optional(v.pipe(v.string(), v.isoTimestamp())),
      until: v.optional(v.pipe(v.string(), v.isoTimestamp())),
      cursor: v.optional(v.string()),
      ...page,
    }),
  ),
  'chat.read_thread': new Schema(() =>
    v.object({ eventId: v.optional(text), conversation: v.optional(text), cursor: v.optional(v.string()), ...page }),
  ),
  'chat.send_message': new Schema(() =>
    v.object({
      target: text,
      text: v.string(),
      inReplyTo: v.optional(text),
      idempotencyKey: SendKey.inner,
      visibility: v.picklist(['dm', 'thread', 'channel', 'ephemeral']),
      directedness: Directedness.inner,
      intent: v.optional(Intent.inner, 'none'),
      priority: v.optional(Priority.inner, 'normal'),
      refs: v.optional(v.array(v.string())),
      obligation: v.optional(Blocking.inner),
    }),
  ),
  'chat.react': new Schema(() =>
    v.object({
      inReplyTo: text,
      signal: Signal.inner,
      eta: v.optional(v.pipe(v.string(), v.maxLength(200))),
      recipient: v.optional(AgentName.inner),
    }),
  ),
  'chat.claim': new Schema(() => v.object({ eventId: text, release: flag })),
  'chat.defer': new Schema(() =>
    v.object({
      eventId: text,
      reason: v.pipe(v.string(), v.minLength(1), v.maxLength(500)),
      until: v.optional(v.pipe(v.string(), v.isoTimestamp())),
    }),
  ),
  'chat.resolve': new Schema(() => v.object({ eventId: text, note: v.optional(v.string()) })),
} as const;
export type ToolName = keyof typeof TOOLS;
export type ToolArguments<Name extends ToolName> = Described<(typeof TOOLS)[Name]>;

/**
 * The parameters of what a surface sends. `messageId` is the platform's: the event's id is made from it and never changes.
 * `conversation` says where that message is, for platforms whose message ids are unique only per conversation. spec: host#surface
 */
export const SURFACE = {
  'surface/bind': new Schema(() => v.object({ platform: AgentName.inner, workspaceId: text, ephemeral: flag })),
  'surface/post': new Schema(() =>
    v.object({
      messageId: text,
      conversation: v.object({
        id: text,
        kind: v.picklist(['dm', 'channel', 'thread', 'system', 'tool']),
        threadId: v.optional(text),
        private: flag,
      }),
      author: v.object({ id: text, kind: v.picklist(['human', 'agent']), displayName: v.optional(v.string()) }),
      /** For a DM: the agent it is for. */
      recipient: v.optional(AgentName.inner),
      /** Agents and roles by name, people by the platform's id. Without this list the mentions are read from the text. */
      mentions: v.optional(v.array(v.string())),
      content: v.array(BroughtPart.inner),
      sequence: v.optional(v.number()),
      createdAt: v.optional(v.pipe(v.string(), v.isoTimestamp())),
      priority: v.optional(Priority.inner, 'normal'),
      intent: v.optional(Intent.inner, 'none'),
      obligation: v.optional(Blocking.inner),
    }),
  ),
  'surface/edit': new Schema(() =>
    v.object({
      messageId: text,
      conversation: v.optional(text),
      content: v.array(BroughtPart.inner),
      mentions: v.optional(v.array(v.string())),
    }),
  ),
  'surface/delete': new Schema(() =>
    v.object({ messageId: text, conversation: v.optional(text), by: v.optional(text) }),
  ),
  'surface/react': new Schema(() =>
    v.object({
      messageId: text,
      conversation: v.optional(text),
      /** Becomes part of the send key. */
      reactionId: v.pipe(text, v.regex(/^[^\p{Cc}]{1,180}$/u, 'use one line of at most 180 characters')),
      author: text,
      glyph: v.optional(v.string()),
      signal: v.optional(v.string()),
      recipient: v.optional(AgentName.inner),
    }),
  ),
  'surface/typing': new Schema(() => v.object({ conversation: text, author: text, on: v.boolean() })),
} as const;

/** A part of a message, with its type: a text, or a ref to anything else. spec: host#content */
export const Part = new Schema(() =>
  v.union([v.object({ type: v.literal('text'), text: v.string() }), Attachment.inner]),
);
export type Part = Described<typeof Part>;

const word = v.fallback(v.optional(v.string()), undefined);

/** A part as surfaces send it: of any type, with more or fewer fields. spec: host#content */
export const BroughtPart = new Schema(() =>
  v.pipe(
    v.object({
      type: text,
      text: v.optional(v.string()),
      ref: v.optional(v.string()),
      url: word,
      label: word,
      name: word,
      mimeType: word,
      size: v.fallback(v.optional(v.number()), undefined),
    }),
    v.check((part) => part.type !== 'text' || part.text !== undefined, 'a part of type text has a text'),
    v.check((part) => part.type !== 'ref' || part.ref !== undefined, 'a part of type ref has a ref'),
  ),
);
export type BroughtPart = Described<typeof BroughtPart>;

/** A knock: facts about a message, without its text. spec: c2a#knock */
export const Knock = new Schema(() =>
  v.object({
    from: v.string(),
    where: v.string(),
    directedness: Directedness.inner,
    policy: Policy.inner,
    priority: Priority.inner,
    topic: v.pipe(v.string(), v.maxLength(60)),
    pullWith: v.string(),
    ageMs: v.number(),
    /** What its author does without an answer, if the message blocks work. */
    defaultAction: v.optional(v.string()),
    parts: v.record(v.string(), v.number()),
  }),
);
export type Knock = Described<typeof Knock>;

/** A person, agent or system, as the draft of 2026-08-11 names it. */
export const Party = new Schema(() =>
  v.object({
    id: v.string(),
    kind: v.picklist(['human', 'agent', 'system']),
    displayName: v.optional(v.string()),
  }),
);
export type Party = Described<typeof Party>;

/** The parameters of `chat/deliver`. spec: host#deliver */
export const ChatDeliver = new Schema(() =>
  v.object({
    sessionId: v.string(),
    eventId: MessageId.inner,
    source: v.object({ platform: v.string(), workspaceId: v.string() }),
    conversation: v.object({
      id: v.string(),
      kind: v.picklist(['dm', 'channel', 'thread', 'system', 'tool']),
      streamId: v.optional(v.string()),
      threadId: v.optional(v.string()),
    }),
    author: v.object({ id: v.string(), kind: v.picklist(['human', 'agent', 'system']), displayName: v.string() }),
    target: v.object({ mentions: v.array(v.string()), recipient: v.string(), directedness: Directedness.inner }),
    content: v.optional(v.array(Part.inner)),
    knock: v.optional(Knock.inner),
    timing: v.object({ createdAt: v.pipe(v.string(), v.isoTimestamp()), sequence: v.number() }),
    attention: v.object({
      policy: Attention.inner.entries.policy,
      reason: Reason.inner,
      priority: Priority.inner,
      deadlineMs: v.optional(v.number()),
    }),
    injection: v.object({
      mode: Injection.inner,
      context: v.picklist(['none', 'thread_window']),
      role: v.literal('user'),
      /** Interrupt the running turn: only if the harness can and the event may. */
      interrupt: v.optional(v.boolean()),
    }),
    reliability: v.object({ attempt: v.number(), idempotencyKey: v.string() }),
    obligation: v.optional(v.object({ ...Blocking.inner.entries, dischargeDelegate: v.optional(Party.inner) })),
    /** For a reaction: its target event and its meaning for the author of that. The other fields are for peers of the draft of 2026-08-11. */
    reaction: v.optional(
      v.object({
        target: MessageId.inner,
        signal: Signal.inner,
        means: v.optional(Meaning.inner),
        reactionId: v.optional(v.string()),
        targetEventId: v.optional(v.string()),
        createdAt: v.optional(v.string()),
        actor: v.optional(Party.inner),
        recipient: v.optional(Party.inner),
      }),
    ),
    /** The events whose texts share this turn, oldest first; the last is `eventId`. */
    merged: v.optional(v.array(MessageId.inner)),
    /** How often the event was sent again because its answer is still owed. A higher number means: show it again. */
    returns: v.optional(v.number()),
    /** Our extension: text that a harness may give its model unchanged. Absent if the model is to see nothing. */
    prompt: v.optional(v.string()),
    /** For peers of the drafts of 2026-06-24 and 2026-08-11. */
    addressedToMe: v.optional(v.boolean()),
    policy: v.optional(v.string()),
    /** For peers of the draft of 2026-08-11. */
    createdAt: v.optional(v.string()),
    recipients: v.optional(v.array(Party.inner)),
  }),
);
export type ChatDeliver = Described<typeof ChatDeliver>;
