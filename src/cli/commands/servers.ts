import { openHostService, hostOnStdio } from '../../protocols/c2a/open-host.ts';
import { hostAddresses } from '../../protocols/c2a/options.ts';
import { serveMcp } from '../../wire/mcp-stdio.ts';
import { CLIENT_NAMES } from '../../clients/client-names.ts';
import { chatFace } from '../../protocols/c2a/mcp.ts';
import { mailFace } from '../../protocols/mcp/mail-face.ts';
import type { Face } from '../../wire/mcp.ts';
import { speak } from '../table.ts';
import { Context } from '../context.ts';
import { bringHere } from '../find.ts';
import { sessionWho } from '../session-who.ts';
import { mailboxesOf } from '../../core/mail/shared.ts';
import { requestFollowerFor } from '../start-follower.ts';
import { command } from '../../core/command.ts';
import type { OpenService } from '../../core/service.ts';
import type { ToolCaller } from '../../core/mail/tool-call.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { servingLog } from '../../platform/log.ts';
import { VERSION } from '../../platform/program.ts';
import { serveUntilSignal } from '../../platform/serve.ts';
import { Refusal } from '../../core/refusal.ts';

const hostCommand = command({
  usage: 'host  |  host --stdio',
  about:
    'Serves the mail of your home to programs that run models (harnesses) and to chats (surfaces), by JSON-RPC, until Ctrl-C.\n' +
    'It listens on a Unix socket that only you can open, and with --ws on 127.0.0.1 for those who know the token.\n' +
    'With --stdio it speaks to the program that started it, and ends with it.\n' +
    'While it runs, time works: what nobody answers comes back, and goes to the owner in the end.',
  options: {
    stdio: { type: 'boolean', help: 'one peer, on stdin and stdout' },
    socket: { type: 'string', value: 'path', help: 'listen there (default: host/socket in your home)' },
    ws: { type: 'string', value: 'port', help: 'also take WebSockets on this port of 127.0.0.1 (0: any free one)' },
    'json-logs': { type: 'boolean', help: 'log as JSON lines' },
  },
  examples: ['parley host', 'parley host --stdio', 'parley host --ws 7118', 'parley up --with host --detach'],
  async run(context: Context, values) {
    const { stdio, socket, ws } = values;
    if (stdio && (socket !== undefined || ws !== undefined))
      throw new Refusal('invalid_request', '--stdio serves one program only; leave --socket and --ws out');
    const log = servingLog({ json: values['json-logs'] ?? false, verbose: context.verbose });
    if (stdio) return hostOnStdio(context, log);
    const addresses = hostAddresses({ socket, ws }, context.env, context.cwd);
    const open = async (): Promise<OpenService[]> => {
      const service = await openHostService(context, addresses, log);
      if (context.json) context.sayJson({ socket: service.address, pid: process.pid, about: service.about });
      else
        context.say([`host listening on ${service.address}`, ...service.about.map((line) => `  ${line}`)].join('\n'));
      return [service];
    };
    await serveUntilSignal(open, log, () => {});
  },
});

const mcpCommand = command({
  usage: 'mcp',
  about:
    'Serves your mail as MCP tools over stdin and stdout, until stdin ends. A client starts it; you do not. ' +
    'The tools are inbox, read, reply, send, react, claim, defer, done and agents.\n\n' +
    'As a server of a client:\n\n' +
    '  claude mcp add parley -- parley mcp --client claude\n' +
    '  codex mcp add parley -- parley mcp --client codex\n\n' +
    'Each session of a client has a name of its own, such as @claude.api in the folder api, and also reads @claude, the mailbox of all its ' +
    'sessions. After `parley install <client> --as <name>` they all use that mailbox.',
  options: {
    as: { type: 'string', value: 'agent', help: 'act as this agent' },
    client: { type: 'string', value: 'client', help: 'act as the agent that this client is bound to' },
    face: {
      type: 'string',
      value: 'face',
      help: 'parley (the default), c2a (the tools of the C2A protocol), backchannel (as `bch mcp`) or c2c (as `c2c mcp`)',
    },
  },
  examples: ['parley mcp --client claude', 'parley mcp --as reviewer'],
  async run(context: Context, { as, client, face = 'parley' }) {
    if (face === 'backchannel') return speak('bch', ['mcp']);
    if (face === 'c2c') return speak('c2c', ['mcp']);
    if (face !== 'parley' && face !== 'c2a')
      throw new Refusal('invalid_request', '--face is parley, c2a, backchannel or c2c');
    const name = CLIENT_NAMES.find((one) => one === client);
    if (client !== undefined && name === undefined)
      throw new Refusal('invalid_request', `--client is ${CLIENT_NAMES.join(', ')}`);
    let current: Context | undefined;
    let session: string | null = null;
    const caller = async (): Promise<ToolCaller> => {
      // Only a workspace that has its agent is kept: the mailbox may be made while we run.
      const asked = current ?? new Context(context.env, context.cwd, { as, client });
      const who = name === undefined ? await asked.who('serve') : await sessionWho(asked, name, 'mcp', session);
      current = asked;
      // The daemon may have ended, or been killed: without it nothing wakes this session.
      requestFollowerFor(context.env, [{ mailbox: who.name }]);
      return { workspace: asked.workspace, who, gather };
    };
    const chat = chatFace(VERSION, caller);
    const shown = face === 'c2a' ? chat : withFormerNames(mailFace(VERSION, caller), chat);
    const call: Face['call'] = (tool, given, answer, meta) => {
      // Codex names its session only in each call. Other clients have one process per session.
      session = typeof meta['threadId'] === 'string' ? meta['threadId'] : null;
      return shown.call(tool, given, answer, meta);
    };
    await serveMcp(
      { ...shown, call },
      servingLog({ json: context.env['PARLEY_LOG'] === 'json', verbose: context.verbose }),
    );
  },
});

/** A session that began with 0.1.0 knows the tools by their C2A names: in 0.2 a call by such a name works too. spec: mcp#former */
function withFormerNames(mail: Face, chat: Face): Face {
  const isMail = (name: string): boolean => mail.tools.some((tool) => tool.name === name);
  return { ...mail, unlisted: chat.tools, call: (name, ...rest) => (isMail(name) ? mail : chat).call(name, ...rest) };
}

async function gather(who: Who, prefix: string): Promise<void> {
  if (prefix !== '') await bringHere(who, prefix);
  for (const mailbox of mailboxesOf(who)) await who.home.mailboxes.adopt(mailbox.who.name);
}

export const commands = {
  host: hostCommand,
  mcp: mcpCommand,
};
