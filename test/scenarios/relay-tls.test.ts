import { afterEach, describe, expect, it } from 'bun:test';
import { readFileSync, renameSync } from 'node:fs';
import { connect } from 'node:tls';
import { newCertificate } from '../support/certificate.ts';
import { Caller } from '../support/caller.ts';
import { RelayMachine } from '../support/relay.ts';

let machine = new RelayMachine();
afterEach(async () => {
  await machine.endAll();
  machine = new RelayMachine();
});

const hasOpenssl = Bun.which('openssl') !== null;
const withOpenssl = hasOpenssl ? it : it.skip;

describe(`a relay with TLS${hasOpenssl ? '' : ' (skipped: no openssl here)'}`, () => {
  withOpenssl('speaks HTTPS with the certificate that it was given', async () => {
    const { cert, key } = newCertificate(machine.program.home, 'first');
    const { running, url } = await machine.relay(['--tls-cert', cert, '--tls-key', key]);
    expect(url).toStartWith('https://127.0.0.1:');
    expect(running.out).toMatch(/TLS until \d{4}-\d{2}-\d{2}/);
    const ca = readFileSync(cert, 'utf8');
    const alice = await Caller.register(url, 'alice', '', ca);
    expect((await alice.send('@alice', 'over TLS')).id).toMatch(/^[0-9a-f-]{36}$/);
    await expect(fetch(`${url}v1/health`)).rejects.toThrow();
    expect((await running.stop()).code).toBe(0);
  });

  withOpenssl(
    'takes a new certificate at SIGHUP without letting a listener go, and keeps the old one while files do not fit',
    async () => {
      const { home } = machine.program;
      const files = newCertificate(home, 'first');
      const { running, url } = await machine.relay(['--tls-cert', files.cert, '--tls-key', files.key]);
      const ca = readFileSync(files.cert, 'utf8');
      const alice = await Caller.register(url, 'alice', '', ca);
      const stream = (await alice.get('events/alice')).body?.getReader();
      const next = newCertificate(home, 'second');
      const newCa = readFileSync(next.cert, 'utf8');

      renameSync(next.cert, files.cert);
      running.child.kill('SIGHUP');
      await running.complains('certificate_refused');
      expect(await nameAt(url)).toBe('first');

      renameSync(next.key, files.key);
      running.child.kill('SIGHUP');
      await running.complains('certificate_renewed');
      expect(await nameAt(url)).toBe('second');

      const { id } = await new Caller(url, alice.token, 'alice', newCa).send('@alice', 'after the change');
      let heard = '';
      while (!heard.includes(id)) {
        const { value, done } = (await stream?.read()) ?? { value: undefined, done: true };
        if (done) throw new Error(`the stream ended; it said ${heard}`);
        heard += new TextDecoder().decode(value);
      }
      expect((await running.stop()).code).toBe(0);
    },
  );

  withOpenssl('sees by itself that the files have changed', async () => {
    const { home } = machine.program;
    const files = newCertificate(home, 'first');
    const { running, url } = await machine.relay(['--tls-cert', files.cert, '--tls-key', files.key]);
    const next = newCertificate(home, 'second');
    renameSync(next.key, files.key);
    renameSync(next.cert, files.cert);
    await running.complains('certificate_renewed');
    expect(await nameAt(url)).toBe('second');
  });

  withOpenssl('on a port that another relay has with TLS does not share it in silence', async () => {
    const { cert, key } = newCertificate(machine.program.home, 'first');
    const { url } = await machine.relay(['--tls-cert', cert, '--tls-key', key]);
    const { port } = new URL(url);
    const other = new RelayMachine();
    const run = await other.program.run(['relay', '--port', port, '--tls-cert', cert, '--tls-key', key]);
    expect(run.code).toBe(75);
    expect(run.err).toContain(`port ${port} on 127.0.0.1 is in use`);
  });
});

/** The name in the certificate that is shown to anyone who connects now. */
async function nameAt(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });
}
