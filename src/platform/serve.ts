import { constants } from 'node:os';
import type { Log, OpenService } from '../core/service.ts';
import { exitNow } from './libc.ts';
import { writeAll } from './terminal.ts';

/**
 * Opens services and keeps them open until SIGTERM or SIGINT, then closes them, which finishes accepted work. A second signal ends the
 * process at once. SIGHUP reads certificates again; it never ends the process, because terminals send it when they close.
 */
export async function serveUntilSignal(
  open: () => Promise<readonly OpenService[]>,
  log: Log,
  telling: (what: string) => void,
): Promise<void> {
  let services: readonly OpenService[] = [];
  process.on('SIGHUP', () => {
    for (const service of services) service.renew();
  });
  // Installed before the services open: a signal just after they were announced must not cut off a request.
  const asked = firstSignal(() => services.length > 0);
  services = await open();
  log('stopping', { signal: await asked });
  await closeAll(services, (what) => {
    telling(what);
    log('finishing', { what });
  });
  log('stopped', {});
}

/** Prints the warnings of a service on stderr, or through the log if there is one. */
export function tellWarnings({ warnings }: OpenService, log: Log | null): void {
  for (const what of warnings) {
    if (log) log('warning', { what });
    else writeAll(2, `warning: ${what}\n`);
  }
}

/** Closes every service, even if one of them fails; then throws the first failure. */
export async function closeAll(services: readonly OpenService[], telling: (what: string) => void): Promise<void> {
  const closed = await Promise.allSettled(services.map((one) => one.close((what) => telling(`${one.name}: ${what}`))));
  for (const one of closed) if (one.status === 'rejected') throw one.reason;
}

type EndSignal = 'SIGTERM' | 'SIGINT';

/** The first signal. Ends the process at once if no service is open yet, and at a second signal. */
async function firstSignal(isOpen: () => boolean): Promise<EndSignal> {
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: EndSignal): void => {
      if (asked || !isOpen()) exitNow(128 + constants.signals[signal]);
      asked = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}
