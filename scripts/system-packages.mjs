// What the tests need besides npm packages. As root on Debian it is installed; elsewhere what is missing is named, and the
// tests that need it are skipped by name. With CI=true nothing may be missing.
import { spawnSync } from 'node:child_process';

const NEEDED = [
  { program: 'dash', package: 'dash', for: 'the hook under the smallest shell' },
  { program: 'strace', package: 'strace', for: 'seeing the flushes of a send' },
  { program: 'openssl', package: 'openssl', for: 'a relay with TLS' },
  { program: 'tmux', package: 'tmux', for: 'clients at a terminal' },
  { program: 'git', package: 'git', for: 'finding the repository of a session' },
  { program: 'python3', package: 'python3', for: 'plain scripts beside us in a c2c broker' },
];

export function systemPackages() {
  let missing = NEEDED.filter(({ program }) => !isThere(program));
  if (missing.length > 0 && process.getuid?.() === 0 && isThere('apt-get')) {
    console.log(`Installing for the tests: ${missing.map((one) => one.package).join(', ')} …`);
    spawnSync('apt-get', ['update', '-qq'], { stdio: 'ignore' });
    spawnSync('apt-get', ['install', '-y', '-qq', ...missing.map((one) => one.package)], {
      stdio: 'ignore',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
    missing = missing.filter(({ program }) => !isThere(program));
  }
  for (const one of missing) console.log(`skipped without ${one.program}: ${one.for}`);
  if (missing.length > 0 && process.env.CI === 'true') {
    console.log(`0 passed, ${missing.length} failed`);
    process.exit(1);
  }
}

function isThere(program) {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;
}
