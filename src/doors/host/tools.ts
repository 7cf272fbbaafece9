import { TOOLS } from '../../protocol/host.ts';
import type { Capabilities, ToolName } from '../../protocol/host.ts';
import { shapeOf } from './shape.ts';

interface Tool {
  about: string;
  /** What the peer must have named at `initialize` to use it. */
  needs: keyof Capabilities['chatTools'];
  readOnly: boolean;
}

/** All seven can be repeated without harm: three read or have a key, four say the same thing again. spec: host#tools */
const ABOUT: Record<ToolName, Tool> = {
  'chat.list_events': {
    about: 'List chat events available to this session, filtered by stream, conversation, policy, or time.',
    needs: 'readThread',
    readOnly: true,
  },
  'chat.read_thread': { about: 'Read a thread or conversation window.', needs: 'readThread', readOnly: true },
  'chat.send_message': { about: 'Send an idempotent chat message.', needs: 'sendMessage', readOnly: false },
  'chat.react': {
    about: 'Send a typed reaction signal as a zero-turn disposition.',
    needs: 'react',
    readOnly: false,
  },
  'chat.claim': {
    about: 'Claim responsibility for responding to a channel event or thread.',
    needs: 'claim',
    readOnly: false,
  },
  'chat.defer': {
    about: 'Record that a must-respond event is deferred with a reason.',
    needs: 'defer',
    readOnly: false,
  },
  'chat.resolve': { about: 'Mark an event, thread, or assignment resolved.', needs: 'resolve', readOnly: false },
};

export function isToolName(name: unknown): name is ToolName {
  return typeof name === 'string' && Object.hasOwn(TOOLS, name);
}

/** Which capability a peer lacks for this tool; null if it may use it. */
export function lacksFor(tool: ToolName, { chatTools }: Capabilities): string | null {
  const { needs } = ABOUT[tool];
  return chatTools[needs] ? null : `chatTools.${needs}`;
}

/** What `tools/list` answers: the tools that both sides have. */
export function toolList(capabilities: Capabilities): { tools: object[] } {
  const names = Object.keys(TOOLS).filter(isToolName);
  return {
    tools: names
      .filter((name) => lacksFor(name, capabilities) === null)
      .map((name) => ({
        name,
        description: ABOUT[name].about,
        inputSchema: shapeOf(TOOLS[name]),
        annotations: { readOnlyHint: ABOUT[name].readOnly, idempotentHint: true, destructiveHint: false },
      })),
  };
}
