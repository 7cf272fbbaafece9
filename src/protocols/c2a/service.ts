import type { Service } from '../../core/service.ts';
import { answersAt } from '../../wire/unix-socket.ts';
import { hostAddresses } from './options.ts';

/** The host refuses this before `initialize`. The refusal shows that it answers. */
const PING = '{"jsonrpc":"2.0","id":0,"method":"ping"}\n';

const host: Service = {
  async open(context, values, log) {
    // Loaded here: `answers` needs no engine.
    const { openHostService } = await import('./open-host.ts');
    const socket = values['host-socket'] as string | undefined;
    const ws = values['host-ws'] as string | undefined;
    return openHostService(context, hostAddresses({ socket, ws }, context.env, context.cwd), log);
  },

  answers: (address) => answersAt(address, PING),
};

export default host;
