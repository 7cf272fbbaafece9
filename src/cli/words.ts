import { ago } from '../core/time.ts';
import { forModel, lineForModel } from '../core/gate.ts';
import type { PrintedMail } from '../delivery/print.ts';
import type { Paint } from '../platform/terminal.ts';
import { policyWords } from '../core/attention/attention.ts';
import { shortId } from '../core/names.ts';

/** One line: who wrote to whom, when, and what it asks for. */
export function headline({ message, attention, attempt, quiet, held }: PrintedMail, now: number, paint: Paint): string {
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
export function whole(shown: PrintedMail, now: number, paint: Paint): string {
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
