import { X509Certificate, createPrivateKey } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { Refusal } from '../../core/refusal.ts';
import { codeOf } from '../../core/disk.ts';

/** Paths of a certificate and its key. */
interface CertificateFiles {
  cert: string;
  key: string;
}

/** A certificate with its key, as text. */
export interface Certificate {
  cert: string;
  key: string;
}

/** How often the files are checked. Renewers replace them by links, so a watch on the file would see nothing. */
const LOOK_MS = 2000;

/** Reads both files. Refuses a key that does not belong to the certificate: the server would fail at every handshake. */
export function readCertificate(files: CertificateFiles): Certificate {
  const cert = textOf(files.cert, '--tls-cert');
  const key = textOf(files.key, '--tls-key');
  let fits: boolean;
  try {
    fits = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Refusal(
      'bad_config',
      `${files.cert} and ${files.key} are not a certificate and key in PEM form (${why})`,
    );
  }
  if (!fits) throw new Refusal('bad_config', `${files.key} is not the key of ${files.cert}; give a matching pair`);
  return { cert, key };
}

/** When this certificate expires. */
export function validUntil({ cert }: CertificateFiles): Date {
  return new X509Certificate(cert).validToDate;
}

/**
 * Calls back with every new certificate, and with the reason if new files cannot be used (the old certificate then stays).
 * `look` checks the files now: a renewer can send SIGHUP.
 */
export function followCertificate(
  files: CertificateFiles,
  onNew: (certificate: CertificateFiles) => void,
  onRefused: (why: string) => void,
): { look(): void; close(): void } {
  let seen = stampOf(files);
  const look = (): void => {
    const now = stampOf(files);
    if (now === seen) return;
    // One file may be written before the other: a pair that does not match is read again when either changes.
    seen = now;
    try {
      onNew(readCertificate(files));
    } catch (error) {
      onRefused(error instanceof Error ? error.message : String(error));
    }
  };
  const timer = setInterval(look, LOOK_MS);
  timer.unref();
  return { look, close: () => clearInterval(timer) };
}

/** Changes when either file does. */
function stampOf({ cert, key }: CertificateFiles): string {
  return [cert, key]
    .map((path) => {
      const stat = statSync(path, { throwIfNoEntry: false });
      return stat ? `${stat.ino}.${stat.mtimeMs}.${stat.size}` : 'none';
    })
    .join();
}

function textOf(path: string, option: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Refusal('bad_config', `${option} ${path} cannot be read (${codeOf(error) ?? 'unknown'})`);
  }
}
