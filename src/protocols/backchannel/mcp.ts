import { jsonForModel, lineForModel } from '../../core/gate.ts';
import { deliver, waiting } from '../../core/mail/deliver.ts';
import type { Workspace, Who } from '../../core/mail/workspace.ts';
import { send } from '../../core/mail/send.ts';
import { anyChannel, McpInbox, McpNothing, McpSend, McpSubscribe } from './names.ts';
import type { MessageId, Scope } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Parsed } from '../../core/schema.ts';
import { listedTool } from '../../wire/mcp.ts';
import type { Answer, Face, ToolRow } from '../../wire/mcp.ts';

interface Tool extends ToolRow {
  run(workspace: Workspace, who: Who, given: unknown, answer: Answer): Promise<void>;
}

const text = { type: 'string' };

/** The four tools of Backchannel's own server, and no others. spec: mcp#backchannel */
const TOOLS: Record<string, Tool> = {
  bch_send: {
    about: 'Send a message to @agent or #channel.',
    takes: {
      target: text,
      body: text,
      priority: { type: 'string', enum: ['normal', 'urgent'] },
      scope: text,
      thread: text,
      refs: { type: 'array', items: text },
    },
    needs: ['target', 'body'],
    async run(workspace, { name }, given, answer) {
      const { target, scope, thread, ...said } = parsed(McpSend, given);
      const { message } = await send(workspace, name, {
        to: target,
        ...said,
        // The user's own words, as on the command line: stored unchanged.
        scope: scope as Scope | undefined,
        thread: thread as MessageId | undefined,
        intent: 'none',
      });
      answer(`sent ${message.id} to ${target}`);
    },
  },
  bch_inbox: {
    about: 'Take the messages that wait for you.',
    takes: { match: text },
    async run(_workspace, who, given, answer) {
      const { home, name: agent } = who;
      const { match } = parsed(McpInbox, given);
      await home.mailboxes.heal();
      // Reading does not depend on this.
      await home.directory.seen(agent).catch(() => {});
      const mail = (await waiting(who, { match })).map(({ message }) => message);
      const by = { by: 'bch mcp', agent, pid: process.pid };
      const taken = await deliver(who, mail, { disposition: 'acknowledged', by }, (delivered) => {
        const messages = delivered.map(({ message }) => message);
        return { show: () => answer(jsonForModel(messages, 2)), slow: true };
      });
      if (taken.length === 0) answer('inbox empty');
    },
  },
  bch_agents: {
    about: 'List the agents.',
    takes: {},
    async run(_workspace, { home }, given, answer) {
      parsed(McpNothing, given);
      // The hash of a token is never shown.
      const records = (await home.directory.list()).map(({ tokenHash: _hash, ...record }) => record);
      answer(jsonForModel(records, 2));
    },
  },
  bch_subscribe: {
    about: 'Subscribe to a channel.',
    takes: { channel: text },
    needs: ['channel'],
    async run(_workspace, { home, name }, given, answer) {
      const { channel } = parsed(McpSubscribe, given);
      if (!(await home.directory.get(name)))
        throw new Refusal('no_identity', `unknown agent "${name}" — run \`bch init ${name}\` first`);
      await home.directory.subscribe(name, anyChannel(channel));
      answer(`subscribed to ${channel}`);
    },
  },
};

/** Backchannel's face for one agent: its name, its version, its texts. */
export function backchannelFace(workspace: Workspace, who: Who): Face {
  return {
    serverInfo: { name: 'backchannel', version: '0.1.0' },
    tools: Object.entries(TOOLS).map(([name, row]) => listedTool(name, row, { additionalProperties: false })),
    call: async (name, given, answer) => TOOLS[name]?.run(workspace, who, given, answer),
    refusal: (line) => lineForModel(line, 1000),
  };
}

function parsed<T>(schema: { safeParse(input: unknown): Parsed<T> }, given: unknown): T {
  const found = schema.safeParse(given ?? {});
  if (found.success) return found.data;
  throw new Refusal('invalid_request', `${found.path || 'arguments'}: ${found.why}`);
}
