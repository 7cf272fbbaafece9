import { darwin } from './os-darwin.ts';
import { linux } from './os-linux.ts';

/** What differs between operating systems: one file each, nothing of it elsewhere. */
export interface Platform {
  /** Changes with every start of the machine. */
  bootId(): string;
  /** Within which process numbers mean the same: a container has a space of its own. */
  processSpace(): string;
  /** When this process started, as the system tells it; null if it does not run; 'unknown' if it runs and will not say. */
  processStart(pid: number): string | null;
  /** The kind of file system below this path if it is a network one (locks and renames cannot be trusted there). */
  networkFileSystem(path: string): string | null;
  /** File events tell of every change below this path: the file system is this machine's alone. False where that is not known. */
  tellsOfChanges(path: string): boolean;
}

export const platform: Platform = process.platform === 'darwin' ? darwin : linux;
