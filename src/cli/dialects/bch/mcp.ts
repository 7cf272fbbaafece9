import { backchannelFace } from '../../../doors/mcp/backchannel-face.ts';
import { McpServer } from '../../../doors/mcp/server.ts';
import { staleAdvice } from '../../replaced.ts';
import { servingLog } from '../../serving-log.ts';
import { writeAll } from '../../terminal.ts';
import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'mcp',
  options: {},
  words: [0, 0],
  async run(bch) {
    const server = new McpServer({
      face: backchannelFace(bch.desk, await bch.who('serve')),
      write: (line) => writeAll(1, line),
      log: servingLog({ json: bch.env['PARLEY_LOG'] === 'json', verbose: false }),
      advice: staleAdvice,
    });
    await server.serve(Bun.stdin.stream());
  },
});
