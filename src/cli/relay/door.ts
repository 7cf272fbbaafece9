import type { Door } from '../doors.ts';
import { backchannelHome } from '../env.ts';
import { relayOrder } from './order.ts';

/** How long a relay may take to say that it is there. */
const PATIENCE_MS = 3000;

const relay: Door = {
  async open(context, values, log) {
    // Not above: whoever only asks whether it answers should not wait for a server to be read.
    const { openRelayDoor } = await import('./open.ts');
    const { bodyLimit, durability } = context.settings;
    const house = { root: backchannelHome(context.env), bodyLimit, durability };
    return openRelayDoor(relayOrder(values, context.env, context.cwd, house), log);
  },

  async answers(address) {
    // Whoever listens everywhere also listens here.
    const url = address.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]');
    try {
      const answer = await fetch(new URL('v1/health', url), {
        signal: AbortSignal.timeout(PATIENCE_MS),
        // Only whether it is there: nothing secret is sent, and its certificate is for the name that others use.
        tls: { rejectUnauthorized: false },
      });
      return answer.ok;
    } catch {
      return false;
    }
  },
};

export default relay;
