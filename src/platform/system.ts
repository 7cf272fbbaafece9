/** How the C library is called here, and the numbers by which it knows things. Nothing is loaded for them. */
interface System {
  /** It is loaded already, and known by this name. */
  libc: string;
  /** Its function that says where the number of the last error stands. */
  errno: '__errno_location' | '__error';
  /** Its number for the limit of open files. */
  openFiles: number;
}

const linux: System = {
  // musl takes every name that begins like this for its own.
  libc: 'libc.so.6',
  errno: '__errno_location',
  openFiles: 7,
};

/** Written from the manual pages and not yet run on a Mac. */
const darwin: System = {
  libc: 'libSystem.dylib',
  errno: '__error',
  openFiles: 8,
};

export const system: System = process.platform === 'darwin' ? darwin : linux;
