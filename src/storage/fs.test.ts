import { describe, expect, it } from 'bun:test';
import fc from 'fast-check';
import * as node from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import type { Facts } from './file-facts.ts';
import * as ours from './fs.ts';
import { holdLock } from './lock-file.ts';
import { system } from './platform/system.ts';

/** A folder with one of everything that a path can lead to. */
function place(): string {
  const root = temporaryHome();
  node.writeFileSync(`${root}/file`, 'hello\n', { mode: 0o640 });
  node.writeFileSync(`${root}/empty`, '');
  node.mkdirSync(`${root}/folder`);
  node.writeFileSync(`${root}/folder/inside`, '');
  node.symlinkSync('file', `${root}/link`);
  node.symlinkSync('nowhere', `${root}/dangling`);
  Bun.spawnSync(['mkfifo', `${root}/pipe`]);
  return root;
}

/** What came of a call: its answer, or all that its error says. */
function outcome(act: () => unknown): unknown {
  try {
    return { answer: act() };
  } catch (error) {
    const { message, code, errno, syscall, path, dest } = error as NodeJS.ErrnoException & { dest?: string };
    return { message, code, errno, syscall, path, dest };
  }
}

/** A part of both, by the same names. */
type Same = Pick<typeof node, 'openSync' | 'closeSync' | 'fsyncSync' | 'existsSync' | 'renameSync' | 'linkSync'> &
  Pick<typeof node, 'unlinkSync' | 'readdirSync'>;

/** Refusals: none of them changes anything, so each can be asked of both. */
const REFUSED: [what: string, act: (fs: Same, root: string) => unknown][] = [
  ['to open what is missing', (fs, root) => fs.openSync(`${root}/nothing`, 'r')],
  ['to open below a file', (fs, root) => fs.openSync(`${root}/file/below`, 'r')],
  ['to write into a folder', (fs, root) => fs.openSync(`${root}/folder`, 'w')],
  ['to make anew what is there', (fs, root) => fs.openSync(`${root}/file`, 'wx')],
  ['to follow a link where none is meant', (fs, root) => fs.openSync(`${root}/link`, system.open.NOFOLLOW)],
  ['a name that is too long', (fs, root) => fs.openSync(`${root}/${'x'.repeat(256)}`, 'w')],
  ['a path that is too long', (fs, root) => fs.openSync(`${root}/${'x/'.repeat(3000)}`, 'r')],
  ['to move what is missing', (fs, root) => fs.renameSync(`${root}/nothing`, `${root}/else`)],
  ['to move a folder onto a file', (fs, root) => fs.renameSync(`${root}/folder`, `${root}/file`)],
  ['to move to below a file', (fs, root) => fs.renameSync(`${root}/file`, `${root}/empty/below`)],
  ['to link what is missing', (fs, root) => fs.linkSync(`${root}/nothing`, `${root}/else`)],
  ['to link to a name that is taken', (fs, root) => fs.linkSync(`${root}/file`, `${root}/empty`)],
  ['to delete what is missing', (fs, root) => fs.unlinkSync(`${root}/nothing`)],
  ['to delete a folder', (fs, root) => fs.unlinkSync(`${root}/folder`)],
  ['to list what is missing', (fs, root) => fs.readdirSync(`${root}/nothing`)],
  ['to list a file', (fs, root) => fs.readdirSync(`${root}/file`)],
  ['to list a pipe', (fs, root) => fs.readdirSync(`${root}/pipe`)],
  ['to list a socket', (fs, root) => fs.readdirSync(`${root}/socket`)],
  ['to close what is not open', (fs) => fs.closeSync(9999)],
  ['to flush what is not open', (fs) => fs.fsyncSync(9999)],
];

describe('our file calls mean the same as those of node:fs', () => {
  it.each(REFUSED)('when they refuse %s', (_, act) => {
    const root = place();
    using _socket = Bun.listen({ unix: `${root}/socket`, socket: { data() {} } });
    const told = outcome(() => act(ours as unknown as Same, root)) as { code: string };
    expect(told).toEqual(outcome(() => act(node, root)) as typeof told);
    expect(told.code).toMatch(/^E[A-Z]+$/);
  });

  it('when a path is too long, wherever its signs of two bytes are cut', () => {
    const root = place();
    for (const start of ['', 'x/', 'x/x/']) {
      const act = (fs: Same): unknown => outcome(() => fs.openSync(`${root}/${start}${'é/'.repeat(2000)}`, 'r'));
      expect(act(ours as unknown as Same)).toEqual(act(node));
      expect(act(ours as unknown as Same)).toMatchObject({ code: 'ENAMETOOLONG' });
    }
  });

  it('when a path has an end inside: it is refused, never cut short', () => {
    const root = place();
    for (const act of [
      (fs: Same) => fs.openSync(`${root}/file\0.json`, 'r'),
      (fs: Same) => fs.unlinkSync(`${root}/file\0.json`),
      (fs: Same) => fs.renameSync(`${root}/file`, `${root}/empty\0x`),
    ]) {
      expect(() => act(ours as unknown as Same)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG_VALUE' }));
    }
    expect(ours.existsSync(`${root}/file\0.json`)).toBe(false);
    expect(node.readdirSync(root)).toContain('file');
  });

  it('when a disk is full', () => {
    const full = ours.openSync('/dev/full', 'w');
    const told = outcome(() => ours.writeSync(full, new Uint8Array(10)));
    expect(told).toEqual(outcome(() => node.writeSync(full, new Uint8Array(10))));
    expect(told).toMatchObject({ code: 'ENOSPC' });
    ours.closeSync(full);
  });

  it('when a full pipe would have to be waited for', () => {
    const root = place();
    const [reader, writer] = [system.open.RDONLY, system.open.WRONLY].map((way) =>
      ours.openSync(`${root}/pipe`, way | system.open.NONBLOCK),
    ) as [number, number];
    const lump = new Uint8Array(4096);
    const fill = (write: (fd: number, bytes: Uint8Array) => number): unknown =>
      outcome(() => {
        for (;;) write(writer, lump);
      });
    expect(fill(ours.writeSync)).toEqual(fill(node.writeSync));
    expect(fill(ours.writeSync)).toMatchObject({ code: 'EAGAIN' });
    for (const fd of [reader, writer]) ours.closeSync(fd);
  });

  it('when a file is read: of any length, and whatever bytes it has', () => {
    const root = place();
    const half = new Uint8Array([0xf0, 0x9f]);
    const texts = ['', '\u{feff}hello', 'x'.repeat(16 * 1024 - 1) + '🙂'.repeat(9000), '🙂'.repeat(300_000)];
    for (const bytes of [...texts.map((text) => Buffer.from(text)), Buffer.concat([Buffer.from('é'), half])]) {
      node.writeFileSync(`${root}/file`, bytes);
      expect(ours.readFileSync(`${root}/file`, 'utf8') === node.readFileSync(`${root}/file`, 'utf8')).toBe(true);
      const fd = ours.openSync(`${root}/file`, 'r');
      expect(ours.readRest(fd).equals(bytes)).toBe(true);
      ours.closeSync(fd);
    }
    expect(ours.readFileSync('/proc/self/cmdline', 'utf8')).toBe(node.readFileSync('/proc/self/cmdline', 'utf8'));
    // The system tells this one by the page, in the order of the addresses with which its lines begin.
    const lines = ours.readFileSync('/proc/self/maps', 'utf8').trimEnd().split('\n');
    const starts = lines.map((line) => BigInt(`0x${/^([0-9a-f]+)-[0-9a-f]+ /.exec(line)?.[1]}`));
    expect(starts).toEqual(starts.toSorted((a, b) => Number(a - b)));
  });

  it('when what is to be read is missing, a folder, or a pipe that nobody writes to', () => {
    const root = place();
    const [missing, folder] = ['nothing', 'folder'].map((name) => `${root}/${name}`) as [string, string];
    expect(outcome(() => ours.readFileSync(missing, 'utf8'))).toMatchObject({ code: 'ENOENT', path: missing });
    expect(outcome(() => ours.readFileSync(folder, 'utf8'))).toMatchObject({ code: 'EISDIR' });
    const { RDONLY, NONBLOCK } = system.open;
    expect(ours.readFileSync(`${root}/pipe`, 'utf8', RDONLY | NONBLOCK)).toBe('');
  });

  it('when something is written: anew, at the end, from an offset, and as private as it is asked for', () => {
    const root = place();
    for (const [way, text] of [
      ['wx', 'one'],
      ['a', 'two'],
      ['r+', 'T'],
    ] as const) {
      const fd = ours.openSync(`${root}/new`, way, 0o600);
      expect(ours.writeSync(fd, Buffer.from(`--${text}`), 2)).toBe(text.length);
      expect(ours.writeSync(fd, new Uint8Array(0))).toBe(0);
      ours.fsyncSync(fd);
      ours.closeSync(fd);
    }
    expect(node.readFileSync(`${root}/new`, 'utf8')).toBe('Tnetwo');
    expect(node.statSync(`${root}/new`).mode & 0o777).toBe(0o600);
    ours.closeSync(ours.openSync(`${root}/new`, 'w'));
    expect(node.statSync(`${root}/new`).size).toBe(0);
    ours.closeSync(ours.openSync(`${root}/as usual`, 'w'));
    expect(node.statSync(`${root}/as usual`).mode).toBe(node.statSync(`${root}/empty`).mode);
  });

  it('when something is linked, moved and deleted', () => {
    const root = place();
    ours.linkSync(`${root}/file`, `${root}/second`);
    ours.renameSync(`${root}/second`, `${root}/empty`);
    ours.unlinkSync(`${root}/file`);
    expect(node.existsSync(`${root}/file`)).toBe(false);
    expect(node.readFileSync(`${root}/empty`, 'utf8')).toBe('hello\n');
  });

  it('when a folder is made: with those above it, once, and never over a file', () => {
    const root = place();
    const make = (fs: Pick<typeof node, 'mkdirSync'>, path: string): unknown =>
      outcome(() => fs.mkdirSync(path, { recursive: true, mode: 0o700 }));
    const ourselves = ours as unknown as typeof node;
    expect(make(ourselves, `${root}/made`)).toEqual({ answer: `${root}/made` });
    expect(node.statSync(`${root}/made`).mode & 0o777).toBe(0o700);
    expect(make(ourselves, `${root}/made`)).toEqual({ answer: undefined });
    expect(make(ourselves, `${root}/a/b/c`)).toEqual({ answer: `${root}/a` });
    node.symlinkSync('loop', `${root}/loop`);
    for (const name of ['file', 'file/', 'file/below', 'dangling', 'loop']) {
      expect(make(ourselves, `${root}/${name}`)).toEqual(make(node, `${root}/${name}`));
    }
  });

  it('when a folder is listed: an empty one, a full one', () => {
    const root = place();
    node.mkdirSync(`${root}/void`);
    node.mkdirSync(`${root}/full`);
    for (let n = 0; n < 700; n += 1) node.writeFileSync(`${root}/full/${'é'.repeat(20)}${n}`, '');
    for (const name of ['', '/void', '/full', '/folder']) {
      expect(ours.readdirSync(root + name).toSorted()).toEqual(node.readdirSync(root + name).toSorted());
    }
  });

  it('when they say what is known of a file', () => {
    const root = place();
    node.truncateSync(`${root}/empty`, 5 * 2 ** 30);
    Bun.spawnSync(['touch', '-d', '1960-01-01 00:00:00.5', `${root}/file`]);
    const known = (facts: Facts | undefined): unknown =>
      facts && {
        ...Object.fromEntries((['dev', 'ino', 'uid', 'size', 'mtimeMs'] as const).map((name) => [name, facts[name]])),
        kinds: [facts.isFile(), facts.isDirectory(), facts.isFIFO()],
      };
    for (const path of [...node.readdirSync(root).map((name) => `${root}/${name}`), '/dev/null', `${root}/nothing`]) {
      const any = { throwIfNoEntry: false } as const;
      expect(known(ours.statSync(path, any))).toEqual(known(node.statSync(path, any)));
      expect(known(ours.lstatSync(path, any))).toEqual(known(node.lstatSync(path, any)));
      expect(ours.existsSync(path)).toBe(node.existsSync(path));
    }
    for (const path of [`${root}/nothing`, `${root}/file/below`]) {
      expect(outcome(() => ours.statSync(path))).toEqual(outcome(() => node.statSync(path)));
      expect(outcome(() => ours.lstatSync(path))).toEqual(outcome(() => node.lstatSync(path)));
    }
    const fd = ours.openSync(`${root}/empty`, 'r');
    expect(known(ours.fstatSync(fd))).toEqual(known(node.fstatSync(fd)));
    ours.closeSync(fd);
  });

  it('in every way to open a file, by its number', () => {
    for (const [name, number] of Object.entries(system.open)) {
      if (name !== 'CLOEXEC') expect([name, number]).toEqual([name, node.constants[`O_${name}` as 'O_RDONLY']]);
    }
  });
});

it('any text is written and read back under any name', () => {
  const root = temporaryHome();
  const names = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 });
  // A mark of the byte order is read like any other sign.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  fc.assert(
    fc.property(names, fc.string({ unit: 'binary', maxLength: 300 }), (name, text) => {
      fc.pre(!/[/\0]/.test(name) && !['.', '..'].includes(name) && Buffer.byteLength(name) < 255);
      const bytes = new TextEncoder().encode(text);
      const fd = ours.openSync(`${root}/${name}`, 'w', 0o600);
      for (let at = 0; at < bytes.length;) at += ours.writeSync(fd, bytes, at);
      ours.closeSync(fd);
      expect(ours.readFileSync(`${root}/${name}`, 'utf8')).toBe(decoder.decode(bytes));
      expect(node.readdirSync(root).toSorted()).toEqual(ours.readdirSync(root).toSorted());
      ours.unlinkSync(`${root}/${name}`);
    }),
    { examples: [['marked', '\u{feff}hello']] },
  );
});

// What the system says of a descriptor: the runtime closes all of them in its own children, whether they are marked or not.
describe.skipIf(process.platform !== 'linux')('what was opened', () => {
  it('is inherited by no child', () => {
    const fd = ours.openSync(`${place()}/file`, 'r');
    const [, flags = ''] = /^flags:\s*(\d+)/m.exec(node.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? [];
    ours.closeSync(fd);
    expect(Number.parseInt(flags, 8) & system.open.CLOEXEC).toBe(system.open.CLOEXEC);
  });

  it('is closed again, whatever came of it', () => {
    const root = place();
    for (const name of ['file', 'folder', 'nothing']) {
      outcome(() => ours.readFileSync(`${root}/${name}`, 'utf8'));
      outcome(() => ours.readdirSync(`${root}/${name}`));
    }
    const lock = holdLock(`${root}/lock`);
    expect(holdLock(`${root}/lock`)).toBe(null);
    lock?.release();
    const open = node.readdirSync('/proc/self/fd').map((fd) => outcome(() => node.readlinkSync(`/proc/self/fd/${fd}`)));
    expect(JSON.stringify(open)).not.toContain(root);
  });
});

describe('the stamp of a file', () => {
  it('stays as long as nothing is changed, and is none where there is no file', () => {
    const root = place();
    expect(ours.stampOf(`${root}/file`)).toBe(ours.stampOf(`${root}/file`));
    expect(ours.stampOf(`${root}/nothing`)).toBe('');
    expect(ours.stampOf(`${root}/dangling`)).not.toBe('');
    expect(ours.stampOf(`${root}/dangling`, true)).toBe('');
    expect(ours.stampOf(`${root}/link`, true)).toBe(ours.stampOf(`${root}/file`));
  });

  it('changes with its length, with its time, and with the file in its place', () => {
    const root = place();
    const stamps = [ours.stampOf(`${root}/file`)];
    const changes = [
      () => node.appendFileSync(`${root}/file`, 'x'),
      () => node.utimesSync(`${root}/file`, 1, 1),
      () => node.utimesSync(`${root}/file`, 1, 1.001),
      () => node.renameSync(`${root}/empty`, `${root}/file`),
    ];
    for (const change of changes) {
      change();
      stamps.push(ours.stampOf(`${root}/file`));
    }
    expect(new Set(stamps).size).toBe(stamps.length);
  });
});
