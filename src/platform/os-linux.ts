import { readFileSync, readlinkSync, statfsSync } from 'node:fs';
import type { Platform } from './os.ts';

/** statfs magic numbers of file systems that live on another machine. */
const NETWORK: Record<number, string> = {
  0x6969: 'nfs',
  0x517b: 'smb',
  0xff534d42: 'cifs',
  0xfe534d42: 'smb2',
  0x01021997: '9p',
  0x5346414f: 'afs',
  0x00c36400: 'ceph',
};

/** ext, xfs, btrfs, tmpfs, f2fs, zfs, bcachefs: every change of a file there goes through this machine's kernel. */
const LOCAL: ReadonlySet<number> = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0xf2f52010, 0x2fc12fc1, 0xca451a4e,
]);

/** Neither changes while we run. Cached, because a claim reads both for each other reader. */
let boot: string | undefined;
let space: string | undefined;

export const linux: Platform = {
  bootId() {
    boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
    return boot;
  },

  processSpace() {
    space ??= ownSpace();
    return space;
  },

  processStart(pid) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      // The command's name is in brackets and may hold anything; the fixed fields follow the last bracket.
      const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return state === 'Z' || state === 'X' ? null : (fields[18] ?? 'unknown');
    } catch {
      return null;
    }
  },

  networkFileSystem(path) {
    return NETWORK[kindOf(path)] ?? null;
  },

  tellsOfChanges(path) {
    return LOCAL.has(kindOf(path));
  },
};

/** The type number of the file system of a path; 0 if it cannot be read. */
function kindOf(path: string): number {
  try {
    return statfsSync(path).type >>> 0;
  } catch {
    return 0;
  }
}

function ownSpace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  } catch {
    return 'unknown';
  }
}
