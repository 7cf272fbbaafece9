import { FFIType, ptr } from 'bun:ffi';
import { openLibc } from './libc.ts';

const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

/** The user id at the other end of a Unix socket, from the kernel; null if the kernel does not tell. */
export function userOf(fd: number): number | null {
  try {
    return process.platform === 'linux' ? byCredentials(fd) : byPeer(fd);
  } catch {
    return null;
  }
}

function byCredentials(fd: number): number | null {
  const { getsockopt } = openLibc({
    getsockopt: {
      args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr],
      returns: FFIType.i32,
    },
  });
  // pid, uid, gid
  const credentials = new Int32Array(3);
  const length = new Uint32Array([credentials.byteLength]);
  const failed = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ptr(credentials), ptr(length)) !== 0;
  return failed ? null : (credentials[1] ?? null);
}

/** Written from the manual page and not yet run on a Mac. */
function byPeer(fd: number): number | null {
  const { getpeereid } = openLibc({
    getpeereid: { args: [FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
  });
  const user = new Uint32Array(1);
  const group = new Uint32Array(1);
  return getpeereid(fd, ptr(user), ptr(group)) === 0 ? (user[0] ?? null) : null;
}
