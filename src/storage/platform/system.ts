/** How the C library is called here, and the numbers by which it knows things. Nothing is loaded for them. */
interface System {
  /** It is loaded already, and known by this name. */
  libc: string;
  /** Its function that says where the number of the last error stands. */
  errno: '__errno_location' | '__error';
  /** Its number for the limit of open files. */
  openFiles: number;
  /** How a file may be opened. */
  open: Readonly<Record<Way, number>>;
}

type Way =
  | 'RDONLY'
  | 'WRONLY'
  | 'RDWR'
  | 'CREAT'
  | 'EXCL'
  | 'TRUNC'
  | 'APPEND'
  | 'NONBLOCK'
  | 'NOFOLLOW'
  // Nothing else is opened.
  | 'DIRECTORY'
  // No child inherits it.
  | 'CLOEXEC';

const linux: System = {
  // musl takes every name that begins like this for its own.
  libc: 'libc.so.6',
  errno: '__errno_location',
  openFiles: 7,
  open: {
    RDONLY: 0,
    WRONLY: 1,
    RDWR: 2,
    CREAT: 0o100,
    EXCL: 0o200,
    TRUNC: 0o1000,
    APPEND: 0o2000,
    NONBLOCK: 0o4000,
    NOFOLLOW: process.arch === 'arm64' ? 0o100000 : 0o400000,
    DIRECTORY: process.arch === 'arm64' ? 0o40000 : 0o200000,
    CLOEXEC: 0o2000000,
  },
};

/** Written from the manual pages and not yet run on a Mac. */
const darwin: System = {
  libc: 'libSystem.dylib',
  errno: '__error',
  openFiles: 8,
  open: {
    RDONLY: 0,
    WRONLY: 1,
    RDWR: 2,
    CREAT: 0x200,
    EXCL: 0x800,
    TRUNC: 0x400,
    APPEND: 0x8,
    NONBLOCK: 0x4,
    NOFOLLOW: 0x100,
    DIRECTORY: 0x100000,
    CLOEXEC: 0x1000000,
  },
};

export const system: System = process.platform === 'darwin' ? darwin : linux;
