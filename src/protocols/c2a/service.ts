import type { Service } from '../../core/service.ts';
import { hostAddresses } from './options.ts';

/** How long a host may take to answer. */
const ANSWER_MS = 3000;
/** Refused before `initialize`, which is an answer. */
const PING = '{"jsonrpc":"2.0","id":0,"method":"ping"}\n';

const host: Service = {
  async open(context, values, log) {
    // Loaded here: `answers` needs no engine.
    const { openHostService } = await import('./open-host.ts');
    const socket = values['host-socket'] as string | undefined;
    const ws = values['host-ws'] as string | undefined;
    return openHostService(context, hostAddresses({ socket, ws }, context.env, context.cwd), log);
  },

  /** A connection is not enough: the system accepts it for a process that hangs. */
  async answers(address) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), ANSWER_MS);
    try {
      const socket = await Bun.connect({
        unix: address,
        socket: { open: (one) => void one.write(PING), data: () => resolve(true), close: () => resolve(false) },
      });
      const answers = await promise;
      socket.terminate();
      return answers;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  },
};

export default host;
