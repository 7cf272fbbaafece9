/** Makes a self-signed certificate for this machine: `<name>.crt` and `<name>.key` in a folder. */
export function newCertificate(folder: string, name: string): { cert: string; key: string } {
  const [cert, key] = [`${folder}/${name}.crt`, `${folder}/${name}.key`];
  const kind = '-x509 -days 2 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'.split(' ');
  const named = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  const made = Bun.spawnSync(['openssl', 'req', ...kind, '-keyout', key, '-out', cert, ...named]);
  if (made.exitCode !== 0) throw new Error(`openssl: ${made.stderr.toString()}`);
  return { cert, key };
}
