import { spawnSync } from 'node:child_process';
import type { Platform } from './platform.ts';

/** Written from the manual pages and not yet run on a Mac: `parley doctor` says so. */
export const darwin: Platform = {
  bootId: () => spawnSync('sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).stdout.slice(0, 8),

  processStart(pid) {
    const started = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim();
    return started === '' ? null : String(Date.parse(started));
  },

  networkFileSystem(path) {
    const mounted = spawnSync('stat', ['-f', '%T', path], { encoding: 'utf8' }).stdout.trim();
    return ['nfs', 'smbfs', 'afpfs', 'webdav'].includes(mounted) ? mounted : null;
  },

  libc: 'libSystem.dylib',
};
