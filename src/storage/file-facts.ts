/** What is known of a file without opening it. */
export interface Facts {
  dev: number;
  ino: number;
  uid: number;
  size: number;
  mtimeMs: number;
  isFile(): boolean;
  isDirectory(): boolean;
  isFIFO(): boolean;
}

const KIND = 0o170000;

class StatFacts implements Facts {
  constructor(
    readonly dev: number,
    readonly ino: number,
    readonly uid: number,
    readonly size: number,
    readonly mtimeMs: number,
    readonly mode: number,
  ) {}

  isFile(): boolean {
    return (this.mode & KIND) === 0o100000;
  }

  isDirectory(): boolean {
    return (this.mode & KIND) === 0o040000;
  }

  isFIFO(): boolean {
    return (this.mode & KIND) === 0o010000;
  }
}

/** What `statx` of Linux has said: it lays it out alike on every processor. */
export function factsIn({ buffer }: Uint8Array): Facts {
  const view = new DataView(buffer);
  const [major, minor] = [view.getUint32(136, true), view.getUint32(140, true)];
  return new StatFacts(
    (minor & 0xff) + major * 2 ** 8 + (minor >>> 8) * 2 ** 20,
    longAt(view, 32),
    view.getUint32(20, true),
    longAt(view, 40),
    secondsAt(view, 112) * 1000 + view.getUint32(120, true) / 1e6,
    view.getUint16(28, true),
  );
}

/** Where number, size, and to the nanosecond the times stand at which its content and at which anything about it was changed. */
const STAMP = [32, 36, 40, 44, 112, 116, 120, 96, 100, 104];

/** In halves: some file systems number their files so high that a whole one would be rounded. */
export function stampIn({ buffer }: Uint8Array): string {
  const view = new DataView(buffer);
  return STAMP.map((at) => view.getUint32(at, true)).join(' ');
}

/** Before 1970 they are negative. */
function secondsAt(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getInt32(at + 4, true) * 2 ** 32;
}

function longAt(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
}
