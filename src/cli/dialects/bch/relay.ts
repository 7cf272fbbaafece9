import { BODY_LIMIT } from '../../../protocol/message.ts';
import type { OpenDoor } from '../../doors.ts';
import { openRelayDoor } from '../../relay/open.ts';
import { relayOrder } from '../../relay/order.ts';
import { servingLog } from '../../serving-log.ts';
import { serveUntilSignal, tellWarnings } from '../../serving.ts';
import { bchCommand, TEXT } from './command.ts';

export default bchCommand({
  usage: 'relay [--port 7117] [--token <room token>] [--host 127.0.0.1]',
  // `--host` is ours: the original listens to every address. So is `--token-file`.
  options: { port: TEXT, token: TEXT, 'token-file': TEXT, host: TEXT },
  words: [0, 0],
  async run(bch, values) {
    const house = { root: bch.root, bodyLimit: BODY_LIMIT, durability: 'normal' } as const;
    const log = servingLog({ json: bch.env['PARLEY_LOG'] === 'json', verbose: bch.env['PARLEY_LOG'] === 'debug' });
    const order = relayOrder(values, bch.env, process.cwd(), house);
    const open = async (): Promise<OpenDoor[]> => {
      const door = await openRelayDoor(order, log);
      tellWarnings(door, null);
      bch.say(`backchannel relay listening on ${door.address}`);
      return [door];
    };
    await serveUntilSignal(open, log, () => {});
  },
});
