import { jsonForModel, lineForModel } from '../../delivery/gate.ts';
import { deliver, waiting } from '../../flow/deliver.ts';
import type { Workspace, Who } from '../../flow/workspace.ts';
import { send } from '../../flow/send.ts';
import { anyChannel, McpInbox, McpNothing, McpSend, McpSubscribe } from '../../protocol/backchannel.ts';
import type { MessageId, Scope } from '../../protocol/names.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { Parsed } from '../../protocol/schema.ts';
import type { Face } from './face.ts';

const text = { type: 'string' };

/** The four tools of Backchannel's own server, and no others. spec: mcp#backchannel */
const TOOLS = [
  tool(
    'bch_send',
    'Send a message to @agent or #channel.',
    {
      target: text,
      body: text,
      priority: { type: 'string', enum: ['normal', 'urgent'] },
      scope: text,
      thread: text,
      refs: { type: 'array', items: text },
    },
    ['target', 'body'],
  ),
  tool('bch_inbox', 'Take the messages that wait for you.', { match: text }, []),
  tool('bch_agents', 'List the agents.', {}, []),
  tool('bch_subscribe', 'Subscribe to a channel.', { channel: text }, ['channel']),
] as const;

function tool<const Name extends string>(name: Name, description: string, properties: object, required: string[]) {
  return {
    name,
    description,
    inputSchema: {
      type: 'object',
      properties,
      ...(required.length > 0 && { required }),
      additionalProperties: false,
    },
  };
}

type Call = (given: unknown, answer: (text: string) => void) => Promise<void>;

/** Backchannel's face for one agent: its name, its version, its texts. */
export function backchannelFace(workspace: Workspace, who: Who): Face {
  const { home, name: agent } = who;
  const calls: Record<(typeof TOOLS)[number]['name'], Call> = {
    bch_send: async (given, answer) => {
      const { target, scope, thread, ...said } = parsed(McpSend, given);
      const { message } = await send(workspace, agent, {
        to: target,
        ...said,
        // The users' own words here, as on the command line: stored as they are.
        scope: scope as Scope | undefined,
        thread: thread as MessageId | undefined,
        intent: 'none',
      });
      answer(`sent ${message.id} to ${target}`);
    },
    bch_inbox: async (given, answer) => {
      const { match } = parsed(McpInbox, given);
      await home.spool.heal();
      // That it was here is of no use to who cannot read.
      await home.directory.seen(agent).catch(() => {});
      const mail = (await waiting(who, { match })).map(({ message }) => message);
      const by = { by: 'bch mcp', agent, pid: process.pid };
      const taken = await deliver(who, mail, { disposition: 'acknowledged', by }, (delivered) => {
        const messages = delivered.map(({ message }) => message);
        return { show: () => answer(jsonForModel(messages, 2)), slow: true };
      });
      if (taken.length === 0) answer('inbox empty');
    },
    bch_agents: async (given, answer) => {
      parsed(McpNothing, given);
      const agents = await home.directory.list();
      // The hash of a token is for comparing, never for showing.
      answer(
        jsonForModel(
          agents.map(({ tokenHash: _hash, ...record }) => record),
          2,
        ),
      );
    },
    bch_subscribe: async (given, answer) => {
      const { channel } = parsed(McpSubscribe, given);
      if (!(await home.directory.get(agent))) {
        throw new Refusal('no_identity', `unknown agent "${agent}" — run \`bch init ${agent}\` first`);
      }
      await home.directory.subscribe(agent, anyChannel(channel));
      answer(`subscribed to ${channel}`);
    },
  };
  return {
    serverInfo: { name: 'backchannel', version: '0.1.0' },
    tools: TOOLS,
    async call(name, given, answer) {
      const known = TOOLS.find((one) => one.name === name);
      if (!known) throw new Error('no tool of this face');
      await calls[known.name](given, answer);
    },
    refusal: (line) => lineForModel(line, 1000),
  };
}

function parsed<T>(schema: { safeParse(input: unknown): Parsed<T> }, given: unknown): T {
  const found = schema.safeParse(given ?? {});
  if (found.success) return found.data;
  throw new Refusal('invalid_request', `${found.path || 'arguments'}: ${found.why}`);
}
