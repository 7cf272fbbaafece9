import type { Service } from '../../core/service.ts';
import { hostOrder } from './order.ts';

/** How long a host may take to say that it is there. */
const PATIENCE_MS = 3000;
/** Refused before `initialize`, which is an answer. */
const PING = '{"jsonrpc":"2.0","id":0,"method":"ping"}\n';

const host: Service = {
  async open(context, values, log) {
    // Not above: whoever only asks whether it answers should not wait for an engine to be read.
    const { openHostService } = await import('./open.ts');
    const socket = values['host-socket'] as string | undefined;
    const ws = values['host-ws'] as string | undefined;
    return openHostService(context, hostOrder({ socket, ws }, context.env, context.cwd), log);
  },

  /** To be connected is not enough: the system does that for a process that hangs. */
  async answers(address) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), PATIENCE_MS);
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
