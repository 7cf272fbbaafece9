import { describe, expect, it } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { temporaryHome } from '../../test/support/home.ts';
import { saveClientFile } from './client-files.ts';

describe('a file for a client', () => {
  it('is saved in the folder of its session, readable only by this user, and ignored by git [CCC-196]', () => {
    const folder = temporaryHome();
    const path = saveClientFile(folder, 'photo-1.jpg', Buffer.from('one'));
    saveClientFile(folder, 'photo-1.jpg', Buffer.from(' two'), 3);
    expect([path, readFileSync(path, 'utf8')]).toEqual([`${folder}/.ccc/photo-1.jpg`, 'one two']);
    expect([statSync(path).mode & 0o777, statSync(`${folder}/.ccc`).mode & 0o777]).toEqual([0o600, 0o700]);
    expect(readFileSync(`${folder}/.ccc/.gitignore`, 'utf8')).toBe('*\n');
  });

  it('is refused if a part is missing or its name is a path', () => {
    const folder = temporaryHome();
    saveClientFile(folder, 'photo-1.jpg', Buffer.from('one'));
    expect(() => saveClientFile(folder, 'photo-1.jpg', Buffer.from('x'), 7)).toThrow(
      'a part of photo-1.jpg is missing',
    );
    for (const name of ['../photo-1.jpg', '/etc/photo-1.jpg', '.gitignore', ''])
      expect(() => saveClientFile(folder, name, Buffer.from('x'))).toThrow('is not a valid file name here');
    expect(readFileSync(`${folder}/.ccc/photo-1.jpg`, 'utf8')).toBe('one');
  });

  it('does not follow links in a repository', () => {
    const [folder, other] = [temporaryHome(), temporaryHome()];
    symlinkSync(other, `${folder}/.ccc`);
    expect(() => saveClientFile(folder, 'photo-1.jpg', Buffer.from('x'))).toThrow('is not a folder; remove it first');
    const project = temporaryHome();
    mkdirSync(`${project}/.ccc`);
    symlinkSync(`${other}/made`, `${project}/.ccc/.gitignore`);
    saveClientFile(project, 'photo-1.jpg', Buffer.from('x'));
    expect([existsSync(`${other}/made`), readdirSync(other)]).toEqual([false, []]);
  });

  it('is removed after 7 days, and no other file there is', () => {
    const folder = temporaryHome();
    const old = saveClientFile(folder, 'photo-1.jpg', Buffer.from('x'));
    writeFileSync(`${folder}/.ccc/notes.txt`, 'mine');
    const eightDaysAgo = new Date(Date.now() - 8 * 24 * 3600_000);
    for (const path of [old, `${folder}/.ccc/notes.txt`]) utimesSync(path, eightDaysAgo, eightDaysAgo);
    saveClientFile(folder, 'photo-2.jpg', Buffer.from('x'));
    expect(readdirSync(`${folder}/.ccc`).sort()).toEqual(['.gitignore', 'notes.txt', 'photo-2.jpg']);
  });
});
