import { afterEach, describe, expect, it } from 'bun:test';
import { renameSync, writeFileSync } from 'node:fs';
import { newCertificate } from '../../../test/support/certificate.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { followCertificate, readCertificate, validUntil } from './certificate.ts';

// The first home clears away what earlier runs left, which can take long: not on a test's time.
temporaryHome();

const open: { close(): void }[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

describe('a certificate', () => {
  it('is read with its key, and says until when it is good', () => {
    const certificate = readCertificate(newCertificate(temporaryHome(), 'a'));
    expect(certificate.cert).toContain('BEGIN CERTIFICATE');
    expect(validUntil(certificate).getTime()).toBeGreaterThan(Date.now());
  });

  it('is refused without its own key', () => {
    const home = temporaryHome();
    const { cert } = newCertificate(home, 'a');
    const { key } = newCertificate(home, 'b');
    expect(() => readCertificate({ cert, key })).toThrow(`${key} is not the key of ${cert}`);
  });

  it('is refused if it is not a certificate, or missing', () => {
    const home = temporaryHome();
    const { key } = newCertificate(home, 'a');
    writeFileSync(`${home}/junk`, 'junk');
    expect(() => readCertificate({ cert: `${home}/junk`, key })).toThrow('not a certificate and key in PEM form');
    expect(() => readCertificate({ cert: `${home}/none`, key })).toThrow(
      `--tls-cert ${home}/none cannot be read (ENOENT)`,
    );
  });

  it('is read again when its files were replaced, and kept while they do not fit', () => {
    const home = temporaryHome();
    const files = newCertificate(home, 'a');
    const seen: string[] = [];
    const follower = followCertificate(
      files,
      () => seen.push('new'),
      (why) => seen.push(why.includes('not the key') ? 'refused' : why),
    );
    open.push(follower);
    follower.look();
    expect(seen).toEqual([]);
    const next = newCertificate(home, 'b');
    renameSync(next.cert, files.cert);
    follower.look();
    follower.look();
    expect(seen).toEqual(['refused']);
    renameSync(next.key, files.key);
    follower.look();
    expect(seen).toEqual(['refused', 'new']);
  });
});
