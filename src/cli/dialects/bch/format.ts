import { forModel, lineForModel } from '../../../delivery/gate.ts';
import type { Message } from '../../../protocol/message.ts';

const BRIEF = 120;

/** The whole message, as the original prints it. The hook prints this too, so it passes the gate. */
export function full(message: Message): string {
  const { scope, thread, refs } = message;
  return [
    head(message),
    ...(scope ? [`  scope: ${lineForModel(scope)}`] : []),
    ...(thread ? [`  thread: ${lineForModel(thread)}`] : []),
    ...(refs?.length ? [`  refs: ${refs.map((ref) => lineForModel(ref, 2048)).join(', ')}`] : []),
    forModel(message.body),
  ].join('\n');
}

/** One line. */
export function brief(message: Message): string {
  const line = message.body.replace(/\s+/g, ' ');
  // Half a surrogate pair is no character.
  const cut = line.length > BRIEF ? `${line.slice(0, BRIEF).replace(/[\uD800-\uDBFF]$/, '')}…` : line;
  return `${head(message)}: ${forModel(cut)}`;
}

function head({ id, from, to, priority, ts }: Message): string {
  return `${lineForModel(from)} -> ${lineForModel(to)}${priority === 'urgent' ? ' [URGENT]' : ''} (${ts}, id ${id.slice(0, 8)})`;
}
