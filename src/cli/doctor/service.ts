import type { Env } from '../../core/env.ts';
import { daemonNotice } from '../../platform/daemon-lock.ts';
import { VERSION } from '../../platform/program.ts';
import { controlPlaces, serverLock } from '../../protocols/control/config.ts';
import { UserService } from '../../protocols/control/systemd-service.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** The service that keeps `ccc listen` running, if it is installed. */
export function examineService(env: Env): Finding[] {
  const service = new UserService(env);
  if (service.file === 'missing') return [];
  const { ok, warn, bad } = on('service');
  const { path, active, pid, why = '', isEnabled, isLingering } = service.state();
  const findings: Finding[] = [];
  if (active === null) findings.push(warn(`${path} is installed; ${why}`, 'see it with `parley status`'));
  else if (active !== 'active')
    findings.push(
      bad(`${path} is installed and ${active}`, '`parley service logs` says why; `parley service restart`'),
    );
  else if (!isEnabled)
    findings.push(warn(`active (pid ${pid}), but it does not start at log-in`, '`parley service install`'));
  else findings.push(ok(`active (pid ${pid}), starts at log-in`));
  findings.push(...service.missing().map((what) => bad(what, '`parley service install` in a shell that finds it')));
  const running = daemonNotice(serverLock(controlPlaces(env)));
  if (running && running.version !== VERSION)
    findings.push(warn(`the server runs ${running.version}, this is ${VERSION}`, '`parley service restart`'));
  if (!isLingering)
    findings.push(
      warn('lingering is off: it ends when you log out, and so do its sessions', '`loginctl enable-linger $USER`'),
    );
  return findings;
}
