import { Refusal } from '../../core/refusal.ts';
import type { Params } from '../../wire/jsonrpc.ts';
import type { ChatDeliver, Part, ProtocolVersion } from './shapes.ts';

// The drafts of 2026-06-24 and 2026-08-11 have another shape: an event is flat (`addressedToMe`, `policy`, `content` as one text), there
// are three kinds of conversation, and no `ack_only`. Peers that agreed on one of them get that shape. We accept all shapes from
// everybody. spec: host#flat

const KINDS = ['dm', 'channel', 'thread'];

export function hasFlatEvents(version: ProtocolVersion): boolean {
  return version !== '2026-06-02';
}

/** An event in the shape of these drafts, with the fields that only the first draft has beside theirs. */
export function flatEvent(event: ChatDeliver, version: ProtocolVersion): Params {
  const { content, conversation, attention, target, prompt } = event;
  const isMine = target.directedness === 'to_me';
  const kind = KINDS.includes(conversation.kind) ? conversation.kind : isMine ? 'dm' : 'channel';
  return {
    ...(flatResult(event, version) as Params),
    conversation: { ...conversation, kind },
    addressedToMe: isMine,
    policy: flatPolicy(attention.policy),
    ...(content && { content: content.map(plainText).join('\n') }),
    // This pattern matches only the header: every line of a message is quoted.
    ...(prompt !== undefined && {
      prompt: prompt.replaceAll(/^response_policy: ack_only$/gm, 'response_policy: must_not_respond'),
    }),
  };
}

/**
 * Replaces every `policy` in an event or in a tool's result. The draft of 2026-08-11 has no `already_handled`: there another agent's
 * `done` only says that its own side is finished.
 */
export function flatResult(result: unknown, version: ProtocolVersion): unknown {
  if (Array.isArray(result)) return result.map((one) => flatResult(one, version));
  if (typeof result !== 'object' || result === null) return result;
  const fields = Object.entries(result).filter(
    ([name, value]) => name !== 'means' || value !== 'already_handled' || version !== '2026-08-11',
  );
  return Object.fromEntries(
    fields.map(([name, value]) => [
      name,
      name === 'policy' && typeof value === 'string' ? flatPolicy(value) : flatResult(value, version),
    ]),
  );
}

/** A peer that does not know `ack_only` must stay silent, so that it does not answer thanks. */
function flatPolicy(policy: string): string {
  return policy === 'ack_only' ? 'must_not_respond' : policy;
}

/**
 * Parameters of a peer with flat events, in our shape: a text becomes one part, `eventId` the message's id, a reaction's `targetEventId`
 * and `actor` our fields, and each party its id.
 */
export function fromFlat({ content, eventId, targetEventId, actor, recipients, ...others }: Params): Params {
  const id = targetEventId ?? eventId;
  const named: unknown[] = Array.isArray(recipients) ? recipients : [];
  if (named.length > 1 && isDirect(others['conversation']))
    throw new Refusal('invalid_request', 'a DM has one recipient; post it once for each recipient');
  const recipient = partyName(others['recipient'] ?? named[0]);
  return {
    ...(typeof id === 'string' && { messageId: id }),
    ...(actor !== undefined && { author: partyId(actor) }),
    ...others,
    ...(recipient !== undefined && { recipient }),
    ...(others['obligation'] !== undefined && { obligation: fromObligation(others['obligation']) }),
    ...(content !== undefined && {
      content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
    }),
  };
}

function isDirect(conversation: unknown): boolean {
  return (
    typeof conversation === 'object' && conversation !== null && 'kind' in conversation && conversation.kind === 'dm'
  );
}

function plainText(part: Part): string {
  if ('text' in part) return part.text;
  return part.label === undefined ? part.ref : `${part.label} (${part.ref})`;
}

/** Their `dischargeDelegate` is our `delegate`. */
export function fromObligation(obligation: unknown): unknown {
  if (typeof obligation !== 'object' || obligation === null) return obligation;
  const { dischargeDelegate, ...others } = obligation as Record<string, unknown>;
  return dischargeDelegate === undefined ? obligation : { delegate: partyName(dischargeDelegate), ...others };
}

/** A party is `{id, kind}` in the draft of 2026-08-11, and a name elsewhere. */
export function partyName(party: unknown): unknown {
  const id = partyId(party);
  return typeof id === 'string' ? id.replace(/^(?:agent|human):/, '') : id;
}

function partyId(party: unknown): unknown {
  return typeof party === 'object' && party !== null && 'id' in party ? party.id : party;
}
