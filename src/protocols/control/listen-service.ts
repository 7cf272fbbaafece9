import type { Service } from '../../core/service.ts';
import { answersAt } from '../../wire/unix-socket.ts';
import type { OpenChat } from './chat.ts';

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

export function controlAnswers(address: string): Promise<boolean> {
  return answersAt(address, '{"cmd":"ping"}\n');
}
