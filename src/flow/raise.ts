import type { AgentName, MessageId } from '../protocol/names.ts';
import { Refusal } from '../protocol/refusal.ts';
import type { Workspace, Who } from './workspace.ts';
import { keyOf } from './people.ts';
import { send } from './send.ts';
import type { Sent } from './send.ts';
import { visible } from './sight.ts';

/**
 * A person hands an event to an agent that was not meant by it: by a message of their own about it, which must be answered. The event
 * itself stays what it is. Once per event and agent. spec: c2a#raise
 */
export async function raise(workspace: Workspace, who: Who, id: MessageId, to: AgentName, note = ''): Promise<Sent> {
  if ((await who.home.directory.get(who.name))?.parley?.kind !== 'human') {
    throw new Refusal(
      'not_yours',
      `@${who.name} is an agent; only a person raises an event: --as <the person's mailbox>`,
    );
  }
  const { home, message } = await visible([who], id);
  const quoted = `${message.from} in ${message.to}:\n${message.body.replace(/^/gm, '> ')}`;
  return send(workspace, who.name, {
    to: `@${to}%${home.label}`,
    body: [note || 'please see to this', quoted].join('\n\n'),
    priority: 'normal',
    intent: 'assignment',
    thread: id,
    key: keyOf(`raise/${id}/${to}`),
  });
}
