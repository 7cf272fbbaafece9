import { CLIENT_NAMES } from '../../clients/client-names.ts';
import { chatFace } from '../../doors/mcp/chat.ts';
import type { Who } from '../../flow/desk.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { Context } from '../context.ts';
import { serveMcp } from '../mcp-stdio.ts';
import { bringHere } from '../mine.ts';
import { VERSION } from '../program.ts';
import { servingLog } from '../serving-log.ts';
import { refuseUnbound } from '../unbound.ts';

export default command({
  usage: 'mcp',
  about:
    'Serves your mail as MCP tools over stdin and stdout, until stdin ends. A client starts it; you do not. ' +
    'The tools list, read, send, react, claim, defer and resolve, and say who is here.\n\n' +
    'As a server of a client:\n\n' +
    '  claude mcp add parley -- parley mcp --client claude\n' +
    '  codex mcp add parley -- parley mcp --client codex\n\n' +
    'The mailbox of a client is the one that `parley install <client>` gave it.',
  options: {
    as: { type: 'string', value: 'agent', help: 'act as this agent' },
    client: { type: 'string', value: 'client', help: 'act as the agent that this client is bound to' },
    face: {
      type: 'string',
      value: 'face',
      help: 'parley (the default), backchannel (as `bch mcp`) or c2c (as `c2c mcp`)',
    },
  },
  words: [0, 0],
  examples: ['parley mcp --client claude', 'parley mcp --as reviewer'],
  async run(context, { as, client, face = 'parley' }) {
    if (face === 'backchannel') return (await import('../dialects/bch.ts')).runBch(['mcp']);
    if (face === 'c2c') return (await import('../dialects/c2c.ts')).runC2c(['mcp']);
    if (face !== 'parley') throw new Refusal('invalid_request', '--face is parley, backchannel or c2c');
    if (client !== undefined && !CLIENT_NAMES.some((name) => name === client))
      throw new Refusal('invalid_request', `--client is ${CLIENT_NAMES.join(', ')}`);
    let current: Context | undefined;
    const shown = chatFace(VERSION, async () => {
      // Only a desk that has its agent is kept: the mailbox may be made while we run.
      const desk = current ?? new Context(context.env, context.cwd, { as, client });
      if (client !== undefined) refuseUnbound(desk, client, 'mcp');
      const who = await desk.who('serve');
      current = desk;
      return { desk: desk.desk, who, gather };
    });
    await serveMcp(shown, servingLog({ json: context.env['PARLEY_LOG'] === 'json', verbose: context.verbose }));
  },
});

async function gather(who: Who, prefix: string): Promise<void> {
  if (prefix !== '') await bringHere(who, prefix);
  await who.home.spool.adopt(who.name);
}
