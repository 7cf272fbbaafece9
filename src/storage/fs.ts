import { FFIType, ptr } from 'bun:ffi';
import type { Pointer } from 'bun:ffi';
import type * as Fs from 'node:fs';
import { factsIn, stampIn } from './file-facts.ts';
import type { Facts } from './file-facts.ts';
import { lastError, openLibc } from './libc.ts';
import { once } from './once.ts';
import { system } from './platform/system.ts';

/**
 * The file calls of short commands, under the names that node:fs has for them and with the same meaning (fs.test.ts holds both side
 * by side). To load node:fs takes a twentieth of a whole `parley send`; these ask the C library. What it refuses for a reason other
 * than a name that is missing or taken is asked of node:fs once more, which knows the words for it; so is all that these do not
 * know, and everything on other systems than Linux.
 */
const { i32, u32, i64_fast: long, ptr: address } = FFIType;
const CALLS = {
  open: { args: [address, i32, i32], returns: i32 },
  close: { args: [i32], returns: i32 },
  read: { args: [i32, address, long], returns: long },
  write: { args: [i32, address, long], returns: long },
  fsync: { args: [i32], returns: i32 },
  access: { args: [address, i32], returns: i32 },
  statx: { args: [i32, address, i32, u32, address], returns: i32 },
  mkdir: { args: [address, u32], returns: i32 },
  getdents64: { args: [i32, address, long], returns: long },
  rename: { args: [address, address], returns: i32 },
  link: { args: [address, address], returns: i32 },
  unlink: { args: [address], returns: i32 },
} as const;

const AT_CWD = -100;
const AT_LINK_ITSELF = 0x100;
const AT_DESCRIPTOR = 0x1000;
const BASIC_STATS = 0x7ff;
const ENOENT = 2;
const EINTR = 4;
const EEXIST = 17;

/** What the calls need: themselves, and memory that they may be told of. */
interface Tools {
  calls: ReturnType<typeof openLibc<typeof CALLS>>;
  path: Room;
  other: Room;
  read: Room;
  stat: Room;
}

interface Room {
  bytes: Uint8Array;
  at: Pointer;
}

/** Null: they cannot be had here. An old C library lacks some. */
const tools = once((): Tools | null => {
  if (process.platform !== 'linux') return null;
  try {
    const calls = openLibc(CALLS);
    return { calls, path: room(4096), other: room(4096), read: room(16 * 1024), stat: room(256) };
  } catch {
    return null;
  }
});

/** The runtime may move small arrays, but never the bytes of an ArrayBuffer. */
function room(size: number): Room {
  const bytes = new Uint8Array(new ArrayBuffer(size));
  return { bytes, at: ptr(bytes) };
}

const encoder = new TextEncoder();
const decoder = once(() => new TextDecoder('utf-8', { ignoreBOM: true }));

/** The calls, with this path laid out for them; null if they cannot be had, or would see less than the whole path. */
function toolsFor(path: string, other?: string): Tools | null {
  const ready = tools();
  if (!ready || !isLaidOut(ready.path, path)) return null;
  return other === undefined || isLaidOut(ready.other, other) ? ready : null;
}

function isLaidOut({ bytes }: Room, path: string): boolean {
  const { read, written } = encoder.encodeInto(path, bytes);
  if (read < path.length || written === bytes.length || path.includes('\0')) return false;
  bytes[written] = 0;
  return true;
}

/** Everything that there is to do with files. Whoever asks for it pays for it. */
export function nodeFs(): typeof Fs {
  return process.getBuiltinModule('node:fs');
}

type Way = 'r' | 'r+' | 'w' | 'wx' | 'a';

const { RDONLY, WRONLY, RDWR, CREAT, EXCL, TRUNC, APPEND, DIRECTORY, CLOEXEC } = system.open;
const WAYS: Record<Way, number> = {
  r: RDONLY,
  'r+': RDWR,
  w: WRONLY | CREAT | TRUNC,
  wx: WRONLY | CREAT | TRUNC | EXCL,
  a: WRONLY | CREAT | APPEND,
};

export function openSync(path: string, flags: Way | number, mode = 0o666): number {
  const ready = toolsFor(path);
  if (!ready) return nodeFs().openSync(path, flags, mode);
  const way = typeof flags === 'number' ? flags : WAYS[flags];
  const fd = ready.calls.open(ready.path.at, way | CLOEXEC, mode);
  if (fd >= 0) return fd;
  sayIfKnown('open', path);
  return nodeFs().openSync(path, flags, mode);
}

export function closeSync(fd: number): void {
  const ready = tools();
  if (!ready) return nodeFs().closeSync(fd);
  // Interrupted or not, it is closed.
  if (ready.calls.close(fd) !== 0 && lastError() !== EINTR) throw failure('close');
}

/** A flush that failed is never tried again: the system may have dropped what it could not write, and would say that all is well. */
export function fsyncSync(fd: number): void {
  const ready = tools();
  if (!ready) return nodeFs().fsyncSync(fd);
  while (ready.calls.fsync(fd) !== 0) if (lastError() !== EINTR) throw failure('fsync');
}

export function writeSync(fd: number, bytes: Uint8Array, offset = 0): number {
  const ready = tools();
  const part = offset > 0 ? bytes.subarray(offset) : bytes;
  if (!ready || part.length === 0) return nodeFs().writeSync(fd, part);
  for (;;) {
    const written = Number(ready.calls.write(fd, part, part.length));
    if (written >= 0) return written;
    if (lastError() !== EINTR) throw failure('write');
  }
}

/** As text. */
export function readFileSync(path: string, encoding: 'utf8', flags: Way | number = 'r'): string {
  const ready = tools();
  if (!ready) return nodeFs().readFileSync(path, { encoding, flag: flags as Way });
  const fd = openSync(path, flags);
  try {
    return decoder().decode(restOf(ready, fd));
  } finally {
    ready.calls.close(fd);
  }
}

/** The bytes of an open file, from where it was read to. */
export function readRest(fd: number): Buffer {
  const ready = tools();
  return ready ? Buffer.from(restOf(ready, fd)) : nodeFs().readFileSync(fd);
}

/** Good until the next one is read. Beyond a megabyte, to load node:fs and read the rest with it takes less time. */
function restOf({ calls, read: { bytes, at } }: Tools, fd: number): Uint8Array {
  const full: Uint8Array[] = [];
  for (let length = 0; full.length < 64;) {
    const got = Number(calls.read(fd, (at + length) as Pointer, bytes.length - length));
    if (got < 0 && lastError() !== EINTR) throw failure('read');
    length += Math.max(got, 0);
    const last = bytes.subarray(0, length);
    if (got === 0) return full.length === 0 ? last : Buffer.concat([...full, last]);
    if (length === bytes.length) full.push(last.slice());
    length %= bytes.length;
  }
  return Buffer.concat([...full, nodeFs().readFileSync(fd)]);
}

export function existsSync(path: string): boolean {
  const ready = toolsFor(path);
  return ready ? ready.calls.access(ready.path.at, 0) === 0 : nodeFs().existsSync(path);
}

export function renameSync(from: string, to: string): void {
  const ready = toolsFor(from, to);
  if (ready?.calls.rename(ready.path.at, ready.other.at) === 0) return;
  if (ready) sayIfKnown('rename', from, to);
  nodeFs().renameSync(from, to);
}

export function linkSync(from: string, to: string): void {
  const ready = toolsFor(from, to);
  if (ready?.calls.link(ready.path.at, ready.other.at) === 0) return;
  if (ready) sayIfKnown('link', from, to);
  nodeFs().linkSync(from, to);
}

export function unlinkSync(path: string): void {
  const ready = toolsFor(path);
  if (ready?.calls.unlink(ready.path.at) === 0) return;
  if (ready) sayIfKnown('unlink', path);
  nodeFs().unlinkSync(path);
}

/** With all that is missing above it. Undefined if it is there already. */
export function mkdirSync(path: string, options: { recursive: true; mode: number }): string | undefined {
  const ready = toolsFor(path);
  if (ready?.calls.mkdir(ready.path.at, options.mode) === 0) return path;
  if (ready && lastError() === EEXIST && isTold(ready) && factsIn(ready.stat.bytes).isDirectory()) return undefined;
  return nodeFs().mkdirSync(path, options);
}

/** In no order. */
export function readdirSync(path: string): string[] {
  const ready = toolsFor(path);
  const fd = ready?.calls.open(ready.path.at, RDONLY | DIRECTORY | CLOEXEC, 0) ?? -1;
  if (ready && fd < 0) sayIfKnown('scandir', path);
  if (!ready || fd < 0) return nodeFs().readdirSync(path);
  try {
    return namesIn(ready, fd) ?? nodeFs().readdirSync(path);
  } finally {
    ready.calls.close(fd);
  }
}

/** Null if they do not fit: to read thousands, node:fs is as quick. */
function namesIn({ calls, read: { bytes, at } }: Tools, fd: number): string[] | null {
  const length = Number(calls.getdents64(fd, at, bytes.length));
  if (length < 0) return null;
  const names: string[] = [];
  const view = new DataView(bytes.buffer);
  // Each entry says at 16 how long it is; its name begins at 19 and ends with a zero.
  for (let entry = 0; entry < length; entry += view.getUint16(entry + 16, true)) {
    const name = decoder().decode(bytes.subarray(entry + 19, bytes.indexOf(0, entry + 19)));
    if (name !== '.' && name !== '..') names.push(name);
  }
  return Number(calls.getdents64(fd, at, bytes.length)) === 0 ? names : null;
}

/** Whether `stat` says now what is known of the path that is laid out, or of a descriptor. */
function isTold({ calls, path, stat }: Tools, flags = 0, at = AT_CWD): boolean {
  return calls.statx(at, path.at, flags, BASIC_STATS, stat.at) === 0;
}

interface IfAny {
  throwIfNoEntry: false;
}

export function statSync(path: string): Facts;
export function statSync(path: string, options: IfAny): Facts | undefined;
export function statSync(path: string, options?: IfAny): Facts | undefined {
  const ready = toolsFor(path);
  if (ready && isTold(ready)) return factsIn(ready.stat.bytes);
  if (ready && options && lastError() === ENOENT) return undefined;
  return options ? nodeFs().statSync(path, options) : nodeFs().statSync(path);
}

/** Of a link, not of where it leads. */
export function lstatSync(path: string): Facts;
export function lstatSync(path: string, options: IfAny): Facts | undefined;
export function lstatSync(path: string, options?: IfAny): Facts | undefined {
  const ready = toolsFor(path);
  if (ready && isTold(ready, AT_LINK_ITSELF)) return factsIn(ready.stat.bytes);
  if (ready && options && lastError() === ENOENT) return undefined;
  return options ? nodeFs().lstatSync(path, options) : nodeFs().lstatSync(path);
}

export function fstatSync(fd: number): Facts {
  const ready = toolsFor('');
  return ready && isTold(ready, AT_DESCRIPTOR, fd) ? factsIn(ready.stat.bytes) : nodeFs().fstatSync(fd);
}

/** Changes whenever the file does, or another takes its place; empty if there is none. */
export function stampOf(path: string, isLinkFollowed = false): string {
  const ready = toolsFor(path);
  if (ready && isTold(ready, isLinkFollowed ? 0 : AT_LINK_ITSELF)) return stampIn(ready.stat.bytes);
  if (ready && lastError() === ENOENT) return '';
  const told = nodeFs()[isLinkFollowed ? 'statSync' : 'lstatSync'](path, { bigint: true, throwIfNoEntry: false });
  return told ? `${told.ino} ${told.size} ${told.mtimeNs} ${told.ctimeNs}` : '';
}

/** The two refusals that are nothing unusual. */
function sayIfKnown(call: string, path: string, dest?: string): void {
  const error = lastError();
  if (error !== ENOENT && error !== EEXIST) return;
  const [code, words] = error === ENOENT ? ['ENOENT', 'no such file or directory'] : ['EEXIST', 'file already exists'];
  const place = `'${path}'${dest === undefined ? '' : ` -> '${dest}'`}`;
  throw Object.assign(new Error(`${code}: ${words}, ${call} ${place}`), {
    code,
    errno: -error,
    syscall: call,
    path,
    ...(dest !== undefined && { dest }),
  });
}

/** A refusal that must not be asked for twice. */
/** Linux's numbers that Node has no name for. */
const NAMELESS: Readonly<Record<number, string>> = { 37: 'ENOLCK', 116: 'ESTALE', 122: 'EDQUOT' };

function failure(call: string): Error {
  const errno = -lastError();
  const known = process.getBuiltinModule('node:util').getSystemErrorMap().get(errno);
  const [code, words] = known ?? [NAMELESS[-errno] ?? `E${-errno}`, 'unknown error'];
  return Object.assign(new Error(`${code}: ${words}, ${call}`), { code, errno, syscall: call });
}
