import type { ChatDeliver, Part } from '../../protocol/host.ts';
import type { Params } from './frames.ts';

/**
 * The draft of 2026-06-24 says some things in another shape: an event is flat (`addressedToMe`, `policy`, `content` as one
 * text), there are three kinds of conversation, and no `ack_only`. Peers that agreed on it get that shape; both shapes are
 * understood from everybody. spec: host#flat
 */
const KINDS = ['dm', 'channel', 'thread'];
const SILENT = 'response_policy: must_not_respond';

/** An event as that draft has it. What the newer draft says beside it stays, where it has a place of its own. */
export function flatEvent(event: ChatDeliver): Params {
  const { content, conversation, attention, target, prompt } = event;
  const isMine = target.directedness === 'to_me';
  const kind = KINDS.includes(conversation.kind) ? conversation.kind : isMine ? 'dm' : 'channel';
  return {
    ...(flatResult(event) as Params),
    conversation: { ...conversation, kind },
    addressedToMe: isMine,
    policy: flatPolicy(attention.policy),
    ...(content && { content: content.map(plainText).join('\n') }),
    // A line of the header: those of a message are quoted, and never look like one.
    ...(prompt !== undefined && { prompt: prompt.replaceAll(/^response_policy: ack_only$/gm, SILENT) }),
  };
}

/** Whoever knows no `ack_only` stays silent rather than answering thanks. */
export function flatPolicy(policy: string): string {
  return policy === 'ack_only' ? 'must_not_respond' : policy;
}

/** The same in whatever a tool answers: every `policy` in it. */
export function flatResult(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(flatResult);
  if (typeof result !== 'object' || result === null) return result;
  return Object.fromEntries(
    Object.entries(result).map(([name, value]) => [
      name,
      name === 'policy' && typeof value === 'string' ? flatPolicy(value) : flatResult(value),
    ]),
  );
}

/** What a surface brings, in our shape: a text is one part, and an event's id is its message's. */
export function fromFlat(params: Params): Params {
  const { content, eventId, ...others } = params;
  return {
    ...(typeof eventId === 'string' && { messageId: eventId }),
    ...others,
    ...(content !== undefined && {
      content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
    }),
  };
}

function plainText(part: Part): string {
  return part.type === 'text' ? part.text : part.label === undefined ? part.ref : `${part.label} (${part.ref})`;
}
