import { masked } from '../../core/attention/secrets.ts';
import { BODY_LIMIT } from '../../core/message.ts';
import type { Attachment, Message } from '../../core/message.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { BroughtPart, Part } from './shapes.ts';

/** Posted content as fields of a message. */
export interface ChatContent {
  body: string;
  refs?: string[];
  attachments?: Attachment[];
  /** If given, these are mentioned and names in the text are not. */
  mentions?: AgentName[];
}

/** A ref is shown to models: a link, a path or an id, never the file itself. */
const LONGEST_REF = 2048;
const LONGEST_LABEL = 200;
/** How many characters are kept of a ref that is too long. */
const REF_START = 60;

/** Joins the text parts to the body. Every other part becomes a ref with a description; no type is refused. spec: host#content */
export function contentOf(parts: readonly BroughtPart[]): ChatContent {
  const body = parts.flatMap((part) => (part.type === 'text' ? [part.text ?? ''] : [])).join('\n');
  if (body.length > BODY_LIMIT) throw new Refusal('too_large', `a message has at most ${BODY_LIMIT} bytes`);
  const others = parts.filter(({ type }) => type !== 'text').map(attached);
  const described = others.filter(({ type, label }) => type !== 'ref' || label !== undefined);
  return {
    body,
    ...(others.length > 0 && { refs: others.map(({ ref }) => ref) }),
    ...(described.length > 0 && { attachments: described }),
  };
}

/** A message as typed parts, with everything masked that looks like a secret. */
export function partsOf({ message }: { message: Message }): Part[] {
  const described = [...(message.parley?.attachments ?? [])];
  const others = (message.refs ?? []).map((ref): Part => {
    const own = described[0]?.ref === ref ? described.shift() : undefined;
    if (!own) return { type: 'ref', ref: masked(ref) };
    return { ...own, ref: masked(ref), ...(own.label !== undefined && { label: masked(own.label) }) };
  });
  return [{ type: 'text', text: masked(message.body) }, ...others];
}

/** Would an edit to this change anything? */
export function isSameContent({ body, refs = [], attachments = [], mentions }: ChatContent, message: Message): boolean {
  const { parley } = message;
  const before = [message.body, message.refs ?? [], parley?.attachments ?? [], parley?.mentions ?? null];
  return JSON.stringify([body, refs, attachments, mentions ?? null]) === JSON.stringify(before);
}

function attached(part: BroughtPart): Attachment {
  const label = oneLine(part.label ?? part.name ?? '').slice(0, LONGEST_LABEL);
  const type = part.type
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, '-')
    .slice(0, 32);
  const kind = /^[a-z]/.test(type) ? type : 'file';
  const ref = oneLine(part.ref ?? part.url ?? '') || label || kind;
  const { mimeType, size } = part;
  return {
    type: kind,
    ref: ref.length > LONGEST_REF ? `${startOf(ref)}… (${ref.length} characters, not kept)` : ref,
    ...(label !== '' && label !== ref && { label }),
    ...(mimeType !== undefined && { mimeType: oneLine(mimeType).slice(0, LONGEST_LABEL) }),
    ...(size !== undefined && { size }),
  };
}

/** The beginning of a ref; for inlined data only its header, such as `data:image/png;base64,`. */
function startOf(ref: string): string {
  const [head = ''] = /^data:[^,]{0,100},/.exec(ref) ?? [];
  return head || ref.slice(0, REF_START);
}

function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').trim();
}
