import { lstatSync, rmdirSync, rmSync } from 'node:fs';
import { explained } from '../../core/disk.ts';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import { controlPlaces, serverLock } from '../../protocols/control/config.ts';
import { UserService } from '../../protocols/control/systemd-service.ts';
import type { ServiceReport } from '../../protocols/control/systemd-service.ts';

/** Did `ccc install-service` install a unit that is still there? */
export function hasService(env: Env): boolean {
  const { file } = new UserService(env);
  return file === 'ours' || file === 'changed';
}

/** What the user has of control: sessions and settings, and the history. It goes only with a purge. */
export function controlData(env: Env): string[] {
  const { file, folder } = controlPlaces(env);
  return [file, folder].filter((path) => lstatSync(path, { throwIfNoEntry: false }));
}

/** Refuses a purge below a server that goes on writing. The service is ended with the purge. */
export function refuseServer(env: Env): void {
  const notice = daemonNotice(serverLock(controlPlaces(env)));
  if (notice && notice.pid !== new UserService(env).state().pid)
    throw new Refusal(
      'already_claimed',
      `a control server runs (pid ${notice.pid}); end it first: kill ${notice.pid} (nothing was removed)`,
    );
}

/** Ends and removes the service, then what a server left behind. */
export function leaveControl(env: Env, withData: boolean): ServiceReport {
  const places = controlPlaces(env);
  const service = new UserService(env);
  const report: ServiceReport = { done: [], notes: [] };
  const removed = service.file === 'ours' ? service.uninstall(false) : null;
  if (removed) {
    report.done.push(...removed.done);
    report.notes.push(...removed.notes);
  } else if (service.text?.includes('ccc listen'))
    report.notes.push(`${service.path} stays: it is not as Parley wrote it; it may start a program that is gone`);
  const notice = daemonNotice(serverLock(places));
  if (notice) {
    report.notes.push(`a control server still runs (pid ${notice.pid}); to end it: kill ${notice.pid}`);
    return report;
  }
  const left = [
    places.socket,
    `${serverLock(places)}.lock`,
    `${serverLock(places)}.json`,
    `${places.folder}/config.lock`,
  ];
  for (const path of [...left, ...(withData ? controlData(env) : [])]) remove(path);
  try {
    rmdirSync(places.folder);
  } catch {
    // It holds the history, or is not there.
  }
  return report;
}

function remove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch (error) {
    throw explained(error, path, 'not everything was removed');
  }
}
