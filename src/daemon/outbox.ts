import { openRemoteHome } from '../protocols/backchannel/homes.ts';
import { existsSync, readdirSync } from 'node:fs';
import type { Service } from '../core/service.ts';
import type { Home } from '../core/mail/workspace.ts';
import { parleyHome } from '../platform/env.ts';

/** The pause between two attempts to send. */
const ROUND_MS = 5000;

/** The service that sends the mail in the outboxes of this home as soon as their relays can be reached. It has no socket or port. */
export const outbox: Service = {
  async open(context, _values, log) {
    const relays = `${parleyHome(context.env)}/relays`;
    const homes = new Map<string, Home>();
    const ended = new AbortController();

    const sendFrom = async (folder: string): Promise<void> => {
      const home = homes.get(folder) ?? openRemoteHome({ root: folder, durability: context.settings.durability });
      homes.set(folder, home);
      const before = (await home.remote?.outbox())?.length ?? 0;
      if (before === 0) return;
      await home.mailboxes.heal();
      const left = (await home.remote?.outbox())?.length ?? 0;
      if (left < before) log('outbox_sent', { identity: folder.slice(relays.length + 1), sent: before - left, left });
    };

    const rounds = (async () => {
      while (!ended.signal.aborted) {
        for (const folder of foldersIn(relays)) {
          // One relay that fails does not stop the others.
          await sendFrom(folder).catch((error: unknown) =>
            log('outbox_failed', { identity: folder.slice(relays.length + 1), why: String(error) }),
          );
        }
        await pause(ROUND_MS, ended.signal);
      }
    })();

    return {
      name: 'outbox',
      address: relays,
      about: [`sends what waits in the outbox, tried every ${ROUND_MS / 1000} s`],
      warnings: [],
      renew() {},
      async close(telling) {
        ended.abort();
        telling('messages that are being sent');
        await rounds;
      },
    };
  },

  /** The service has no address to ask: if its process runs, it answers. */
  async answers(address) {
    return address !== '';
  },
};

function foldersIn(relays: string): string[] {
  if (!existsSync(relays)) return [];
  return readdirSync(relays)
    .filter((name) => existsSync(`${relays}/${name}/relay.json`))
    .map((name) => `${relays}/${name}`);
}

async function pause(ms: number, ended: AbortSignal): Promise<void> {
  if (ended.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  ended.addEventListener('abort', () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
}
