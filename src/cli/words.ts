import { shortId } from '../protocol/names.ts';
import { forModel, lineForModel } from '../delivery/gate.ts';
import { policyWords } from '../protocol/attention.ts';
import type { Attention } from '../protocol/attention.ts';
import type { Message } from '../protocol/message.ts';
import type { Paint } from './terminal.ts';

/** `3 min ago`, for people. */
export function ago(iso: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(iso)) / 1000));
  if (!Number.isFinite(seconds)) return 'at an unknown time';
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A time as an ISO time to the second. */
export function clockTime(ms: number): string {
  return Math.abs(ms) > 8.64e15 ? 'an unknown time' : new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

export interface Shown {
  message: Message;
  attention?: Attention | undefined;
  attempt?: number;
  quiet?: boolean;
  held?: boolean;
}

/** One line: who wrote to whom, when, and what it asks for. */
export function headline({ message, attention, attempt, quiet, held }: Shown, now: number, paint: Paint): string {
  const marks = [
    message.priority === 'urgent' ? paint.red('urgent') : '',
    message.parley?.intent ?? '',
    attention ? policyWords(attention.policy) : '',
    quiet ? 'quiet' : '',
    held ? paint.yellow('held') : '',
    attempt ? paint.yellow('redelivered') : '',
  ].filter(Boolean);
  const who = `${lineForModel(message.from, 64)} → ${lineForModel(message.to, 64)}`;
  return `${paint.bold(shortId(message.id))}  ${who}  ${paint.dim(ago(message.ts, now))}${marks.length > 0 ? `  ${marks.join(' · ')}` : ''}`;
}

/** The whole message as text: headline, what belongs to it, body. Models run commands too, so it passes the gate. */
export function whole(shown: Shown, now: number, paint: Paint): string {
  const { message } = shown;
  const lines = [headline(shown, now, paint)];
  if (message.scope) lines.push(`  scope: ${lineForModel(message.scope)}`);
  if (message.thread) lines.push(`  answers: ${lineForModel(message.thread)}`);
  if (message.refs?.length) lines.push(`  refs: ${message.refs.map((ref) => lineForModel(ref)).join(', ')}`);
  if (message.parley?.deadline) lines.push(`  deadline: ${message.parley.deadline}`);
  return [...lines, indent(forModel(message.body))].join('\n');
}

/** The first words of a body on one line. */
export function gist(body: string, limit = 72): string {
  return lineForModel(body.replace(/\s+/g, ' ').trim(), limit);
}

function indent(text: string): string {
  return text.replace(/^/gm, '  ');
}
