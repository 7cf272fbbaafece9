import { darwin } from './os-darwin.ts';
import { linux } from './os-linux.ts';

/** The calls that differ between operating systems, for process identity and file systems. Each system has one file. */
export interface Platform {
  /** An id that changes with every start of the machine. */
  bootId(): string;
  /** The process namespace in which pids are valid: each container has its own. */
  processSpace(): string;
  /** The start time of a process in the system's format; null if it does not run; 'unknown' if it runs but the time cannot be read. */
  processStart(pid: number): string | null;
  /** The kind of the path's file system if it is a network one, where locks and renames cannot be trusted; else null. */
  networkFileSystem(path: string): string | null;
  /** True if file events report every change below this path, because only this machine uses the file system. False if unknown. */
  tellsOfChanges(path: string): boolean;
}

export const platform: Platform = process.platform === 'darwin' ? darwin : linux;
