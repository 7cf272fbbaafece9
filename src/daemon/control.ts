import type { Service } from '../core/service.ts';
import { controlService } from '../protocols/control/listen-service.ts';

/** The service that controls sessions, with the Telegram chat of their user. */
export const control: Service = controlService(async (deps) => {
  const { openTelegram } = await import('../bridges/telegram/bridge.ts');
  return openTelegram(deps);
});
