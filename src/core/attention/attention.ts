import * as v from 'valibot';
import { Schema } from '../schema.ts';
import type { Described } from '../schema.ts';

/** Is this copy aimed at its reader? spec: c2a#directedness */
export const Directedness = new Schema(() => v.picklist(['to_me', 'to_my_role', 'to_other', 'ambient']));
export type Directedness = Described<typeof Directedness>;

/** Must, may or must not the reader answer? spec: c2a#policy */
export const Policy = new Schema(() => v.picklist(['must_respond', 'may_respond', 'ack_only', 'must_not_respond']));
export type Policy = Described<typeof Policy>;

/** A policy as models and people read it. spec: c2a#policy */
export function policyWords(policy: Policy): string {
  return policy === 'must_not_respond' ? 'must not respond: read it, do not reply' : policy.replaceAll('_', ' ');
}

/** How much of the message does the model see, and when? Ordered from loudest to quietest. spec: c2a#injection */
export const Injection = new Schema(() =>
  v.picklist(['immediate', 'buffered', 'notify', 'tool_mailbox', 'digest', 'silent']),
);
export type Injection = Described<typeof Injection>;

/** The reason for the decision. The list is closed, so that programs can rely on it. spec: c2a#reasons */
export const Reason = new Schema(() =>
  v.picklist([
    'direct_message',
    'direct_mention',
    'assignment',
    'approval',
    'blocker',
    'thread_question',
    'role_mention',
    'thread_reply',
    'owned_stream',
    'changes_owned_work',
    'thanks',
    'addressed_elsewhere',
    'no_task',
    'ambient',
    'status',
    'reaction',
    'digest',
    'escalation',
    'edited_after_response',
    // Parley's own: a guard holds the message back, because its exchange goes in circles.
    'loop',
    // Parley's own: the recipient is an agent of another program and has no attention policy, so everything is shown.
    'no_policy',
  ]),
);
export type Reason = Described<typeof Reason>;

/** The host's decision on one copy. It is computed; a value that a sender gives is ignored. spec: c2a#attention */
export const Attention = new Schema(() =>
  v.object({
    directedness: Directedness.inner,
    policy: Policy.inner,
    injection: Injection.inner,
    reason: Reason.inner,
  }),
);
export type Attention = Described<typeof Attention>;

/** Quiet copies wait where no hook looks. spec: c2a#quiet */
export function isQuiet(attention: Attention): boolean {
  return attention.injection === 'tool_mailbox' || attention.injection === 'digest' || attention.injection === 'silent';
}
