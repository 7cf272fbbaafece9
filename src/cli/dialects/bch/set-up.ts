import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import type { OwnCommand, SetupClient, Step } from '../../../clients/setup-client.ts';
import { SETUP_CLIENTS } from '../../../clients/setup-clients.ts';
import { carryOut, changeFor, undo } from '../../../clients/settings/apply.ts';
import { readManifest } from '../../../clients/settings/manifest.ts';
import type { Noted } from '../../../clients/settings/manifest.ts';
import { stableProgram } from '../../own-program.ts';
import { guarded } from '../../install/guarded.ts';
import { manifestIn } from '../../install/manifest-place.ts';
import { onPath } from '../../self/search-path.ts';
import type { Env } from '../../../platform/env.ts';
import { wakeService } from '../../../protocols/backchannel/wake.ts';
import type { WakeService } from '../../../protocols/backchannel/wake.ts';

const AGAIN = 'bch setup';

/** A home in which clients are set up, and what we have noted of it. */
export interface Place {
  home: string;
  manifest: string;
  /** It is the home of the user's own session, so that a service that is put there can be started. */
  isOwn: boolean;
  env: Env;
  say(line: string): void;
}

export function placeFor(env: Env, say: (line: string) => void): Place {
  const other = env['BACKCHANNEL_SETUP_HOME'];
  const home = resolve(other || env['HOME'] || homedir());
  return { home, manifest: manifestIn(home), isOwn: !other, env, say };
}

/**
 * Adds mail to the clients that are here. Every file is looked at before the first one is changed, so that one that must be left alone
 * leaves the others as they are too.
 */
export function setUp(place: Place, order: { hooks: boolean; wake: boolean; dry: boolean }): void {
  const clients = order.hooks ? detected(place) : [];
  const isNeeded = clients.length > 0 || order.wake;
  const own: OwnCommand = { program: isNeeded ? stableProgram(place.env, 'bch setup') : '', words: ['bch'] };
  const steps = clients.flatMap(({ client, folder, isMoved }) =>
    client.steps({ home: place.home, folder, isMoved }, own),
  );
  const service = order.wake ? wakeService(process.platform, place.home, own, place.env) : null;
  guarded(place.manifest, AGAIN, () => readManifest(place.manifest));
  for (const step of [...steps, ...(service ? [service.step] : [])]) plan(place, step);
  for (const step of steps) carryOutStep(place, step, order.dry);
  if (!order.hooks && !order.wake) place.say('[none] nothing to do: --no-hooks leaves the clients alone');
  if (order.hooks && clients.length === 0)
    place.say('[none] no known harness detected — let your agent run `bch drain`, or start `bch mcp` from it');
  if (service) wake(place, service, order.dry);
  else if (order.wake)
    place.say(
      `[wake] no service is known for ${process.platform}; let this run: bch watch --urgent-only --peek --exec …`,
    );
}

function detected({ home, isOwn, env }: Place): { client: SetupClient; folder: string; isMoved: boolean }[] {
  return SETUP_CLIENTS.flatMap((client) => {
    const moved = isOwn && client.moved ? env[client.moved] : undefined;
    const folder = moved ? resolve(moved) : join(home, client.folder);
    const isHere = existsSync(folder) || onPath(client.binary, env) !== null;
    return isHere ? [{ client, folder, isMoved: Boolean(moved) }] : [];
  });
}

/** What a step would change, read anew: the step before may have changed the same file by another name. */
function plan(place: Place, step: Step) {
  return guarded(step.path, AGAIN, () => changeFor(step, place.manifest));
}

/** True if something had to be done. */
function carryOutStep(place: Place, step: Step, dry: boolean): boolean {
  const change = plan(place, step);
  const isNeeded = typeof change === 'object';
  if (isNeeded && !dry) guarded(step.path, AGAIN, () => carryOut(change, place.manifest));
  const said = !isNeeded ? step.there : dry ? `would add the ${step.what} in ${step.path}` : step.done;
  place.say(`[${step.owner}] ${said}`);
  return isNeeded && !dry;
}

function wake(place: Place, service: WakeService, dry: boolean): void {
  const other = service.others.find((path) => existsSync(path));
  if (other) return place.say(`[wake] one that does the same is already installed (${other})`);
  const change = plan(place, service.step);
  if (typeof change === 'string' || dry) return void carryOutStep(place, service.step, dry);
  guarded(service.step.path, AGAIN, () => carryOut(change, place.manifest));
  if (!place.isOwn) return place.say(`[wake] ${service.step.done} (not started: it is not in your own home)`);
  const started = service.start.every((command) => succeeds(command, place.env));
  place.say(`[wake] ${started ? service.step.done : service.byHand}`);
}

/** Takes out everything that `setUp` added, and nothing else. */
export function takeDown(place: Place, dry: boolean): void {
  const again = 'bch setup --uninstall';
  const noted = guarded(place.manifest, again, () => readManifest(place.manifest).noted).filter(
    ({ by }) => by === 'bch',
  );
  if (noted.length === 0) place.say(`[none] nothing was added by \`bch setup\` in ${place.home}`);
  for (const one of noted.toReversed()) {
    const remove = () => guarded(one.path, again, () => undo(one, place.manifest, dry));
    const { outcome, kept } = place.isOwn && !dry ? stopping(place.env, one, remove) : remove();
    const words = {
      removed: `${one.what} ${dry ? 'would be removed' : 'removed'} from ${one.path}`,
      gone: `${one.what} was gone already from ${one.path}`,
      changed: `${one.what} in ${one.path} was changed by somebody; it is left as it is`,
    };
    place.say(`[${one.owner}] ${words[outcome]}`);
    if (kept) place.say(`[${one.owner}] the file as it was before the setup is kept as ${kept}`);
  }
}

/** Removes something that was noted. If it is the service, it is stopped before, and the system forgets it after. */
export function stopping<T>(env: Env, { path }: Pick<Noted, 'path'>, remove: () => T): T {
  const service = wakeService(process.platform, resolve(env['HOME'] || homedir()), { program: '', words: [] }, {});
  if (path !== service?.step.path) return remove();
  // A service that does not run any more cannot be stopped: its file goes all the same.
  for (const command of service.stop) succeeds(command, env);
  const result = remove();
  for (const command of service.forget) succeeds(command, env);
  return result;
}

function succeeds(command: string[], env: Env): boolean {
  try {
    const options = { env, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore', timeout: 20_000 } as const;
    return Bun.spawnSync(command, options).exitCode === 0;
  } catch {
    return false;
  }
}
