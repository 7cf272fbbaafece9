import type { Platform } from './os.ts';

/** Written from the manual pages and not yet run on a Mac: `parley doctor` says so. */
export const darwin: Platform = {
  bootId: () => ask('sysctl', '-n', 'kern.bootsessionuuid').slice(0, 8),

  processSpace: () => 'one',

  processStart(pid) {
    const started = ask('ps', '-o', 'lstart=', '-p', String(pid));
    return started === '' ? null : String(Date.parse(started));
  },

  networkFileSystem(path) {
    const mounted = ask('stat', '-f', '%T', path);
    return ['nfs', 'smbfs', 'afpfs', 'webdav'].includes(mounted) ? mounted : null;
  },

  // Not tried on a Mac.
  tellsOfChanges: () => false,
};

function ask(program: string, ...args: string[]): string {
  return Bun.spawnSync([program, ...args])
    .stdout.toString()
    .trim();
}
