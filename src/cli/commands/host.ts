import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import type { OpenDoor } from '../doors.ts';

export default command({
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
  words: [0, 0],
  examples: ['parley host', 'parley host --stdio', 'parley host --ws 7118', 'parley up --with host --detach'],
  async run(context, values) {
    const { stdio, socket, ws } = values;
    if (stdio && (socket !== undefined || ws !== undefined))
      throw new Refusal('invalid_request', '--stdio serves one program only; leave --socket and --ws out');
    const { servingLog } = await import('../serving-log.ts');
    const log = servingLog({ json: values['json-logs'] ?? false, verbose: context.verbose });
    const { hostOnStdio, openHostDoor } = await import('../host/host.ts');
    if (stdio) return hostOnStdio(context, log);
    const { serveUntilSignal } = await import('../serving.ts');
    const { hostAddresses } = await import('../host/options.ts');
    const addresses = hostAddresses({ socket, ws }, context.env, context.cwd);
    const open = async (): Promise<OpenDoor[]> => {
      const door = await openHostDoor(context, addresses, log);
      if (context.json) context.sayJson({ socket: door.address, pid: process.pid, about: door.about });
      else context.say([`host listening on ${door.address}`, ...door.about.map((line) => `  ${line}`)].join('\n'));
      return [door];
    };
    await serveUntilSignal(open, log, () => {});
  },
});
