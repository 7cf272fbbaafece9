import { visible, visibleLine } from '../../../delivery/visible.ts';
import type { Message } from '../../../protocol/message.ts';

const BRIEF = 120;

/** The whole message, as the original prints it. What came from outside is made visible: no text can move a cursor or hide. */
export function full(message: Message): string {
  const { scope, thread, refs } = message;
  return [
    head(message),
    ...(scope ? [`  scope: ${visibleLine(scope)}`] : []),
    ...(thread ? [`  thread: ${visibleLine(thread)}`] : []),
    ...(refs?.length ? [`  refs: ${refs.map((ref) => visibleLine(ref, 2048)).join(', ')}`] : []),
    visible(message.body),
  ].join('\n');
}

/** One line. */
export function brief(message: Message): string {
  const line = message.body.replace(/\s+/g, ' ');
  // Half a surrogate pair is no character.
  const cut = line.length > BRIEF ? `${line.slice(0, BRIEF).replace(/[\uD800-\uDBFF]$/, '')}…` : line;
  return `${head(message)}: ${visible(cut)}`;
}

function head({ id, from, to, priority, ts }: Message): string {
  return `${visibleLine(from)} -> ${visibleLine(to)}${priority === 'urgent' ? ' [URGENT]' : ''} (${ts}, id ${id.slice(0, 8)})`;
}
