import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import type { Home } from '../../flow/workspace.ts';
import { platform } from '../../storage/platform/platform.ts';
import type { Platform } from '../../storage/platform/platform.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** Below this a full disk is near. */
const SPACE = 64 * 1024 * 1024;

/** The folder of a home: is it there, is it ours, can it be written, does its file system keep promises? */
export function examinePlace({ label, root }: Home, system: Pick<Platform, 'networkFileSystem'> = platform): Finding[] {
  const { ok, warn, bad } = on(`home ${label}`);
  if (!existsSync(root)) return [warn(`${root} is not there yet`, '`parley init <name>` makes it')];
  if (!statSync(root).isDirectory()) return [bad(`${root} is no folder`, 'move it away, or set another home')];
  const findings: Finding[] = [];
  const network = system.networkFileSystem(root);
  if (network) {
    findings.push(
      bad(
        `${root} is on ${network}, where locks and renames cannot be trusted: mail can be lost or come twice`,
        'set the home to a local folder',
      ),
    );
  }
  const uid = process.getuid?.();
  const owner = statSync(root).uid;
  if (uid !== undefined && uid !== 0 && owner !== uid)
    findings.push(bad(`${root} belongs to another user (${owner})`, 'use a home of your own'));
  if (!isWritable(root))
    findings.push(bad(`${root} cannot be written`, 'check its permissions and how its disk is mounted'));
  const { bavail, bsize } = statfsSync(root);
  if (bavail * bsize < SPACE) {
    findings.push(
      warn(
        `only ${Math.floor((bavail * bsize) / 1024 / 1024)} MiB are free below ${root}`,
        'free some space before sends are refused',
      ),
    );
  }
  return findings.length > 0 ? findings : [ok(`${root} is local and can be written`)];
}

function isWritable(root: string): boolean {
  try {
    accessSync(root, constants.R_OK | constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
