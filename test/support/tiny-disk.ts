import { Database } from 'bun:sqlite';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { temporaryHome } from './home.ts';

/** A disk of two megabytes to fill. Only root on Linux can mount one; elsewhere `why` says why there is none. */
export class TinyDisk {
  readonly path: string;
  readonly why: string;

  constructor() {
    ({ path: this.path, why: this.why } = mounted());
  }

  /** Tests on the disk run, or are skipped. In CI there must be one. */
  get isExpected(): boolean {
    return Boolean(this.path || process.env['CI']);
  }

  /** A new folder on the disk. */
  home(name: string): string {
    if (this.why) throw new Error(`${this.why}, and in CI this must be tested`);
    mkdirSync(`${this.path}/${name}`, { mode: 0o700 });
    return `${this.path}/${name}`;
  }

  /** Fills the disk up to these bytes. With a home, its ledger first writes over its log from the start: it still has room then. */
  fill(free: number, home?: string): void {
    this.empty();
    if (home !== undefined) {
      const db = new Database(`${home}/ledger.db`);
      db.run('PRAGMA wal_checkpoint(RESTART)');
      db.close();
    }
    const { bavail, bsize } = statfsSync(this.path);
    writeFileSync(`${this.path}/filler`, Buffer.alloc(Math.max(0, bavail * bsize - free)));
  }

  /** Undoes `fill`. */
  empty(): void {
    rmSync(`${this.path}/filler`, { force: true });
  }

  close(): void {
    if (this.path) Bun.spawnSync(['umount', '-l', this.path]);
  }
}

function mounted(): { path: string; why: string } {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return { path: '', why: 'only root can mount a tiny disk' };
  const path = `${temporaryHome()}/disk`;
  mkdirSync(path);
  const { exitCode } = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=2m,mode=0700', 'tmpfs', path]);
  return exitCode === 0 ? { path, why: '' } : { path: '', why: 'mounting a tiny disk failed' };
}
