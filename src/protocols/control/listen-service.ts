import type { Service } from '../../core/service.ts';
import type { OpenChat } from './chat.ts';

/** How long a server may take to answer. */
const ANSWER_MS = 3000;

/** The control of sessions, for `parley up --with control` and `ccc listen`. */
export function controlService(openChat: OpenChat): Service {
  return {
    async open(context, _values, log) {
      // Loaded here: `answers` needs no sessions.
      const { openControlService } = await import('./open-control.ts');
      return openControlService(context, log, openChat);
    },
    answers: controlAnswers,
  };
}

/** A connection is not enough: the system accepts it for a process that hangs. */
export async function controlAnswers(address: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), ANSWER_MS);
  try {
    const socket = await Bun.connect({
      unix: address,
      socket: {
        open: (one) => void one.write('{"cmd":"ping"}\n'),
        data: () => resolve(true),
        close: () => resolve(false),
      },
    });
    const answers = await promise;
    socket.terminate();
    return answers;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}
