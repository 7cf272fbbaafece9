import { backchannelFace } from '../../../doors/mcp/backchannel.ts';
import { serveMcp } from '../../mcp-stdio.ts';
import { servingLog } from '../../serving-log.ts';
import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'mcp',
  options: {},
  words: [0, 0],
  async run(bch) {
    const log = servingLog({ json: bch.env['PARLEY_LOG'] === 'json', verbose: false });
    await serveMcp(backchannelFace(bch.desk, await bch.who('serve')), log);
  },
});
