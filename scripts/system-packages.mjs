// What the tests need besides npm packages. As root on Debian `npm test` installs it, and says so before. Elsewhere it
// prints the line to type, and the tests that need it are skipped by name. With CI=true nothing may be missing.
import { spawnSync } from 'node:child_process';

const NEEDED = [
  { program: 'dash', package: 'dash', for: 'the hook under the smallest shell' },
  { program: 'strace', package: 'strace', for: 'seeing the flushes of a send' },
  { program: 'openssl', package: 'openssl', for: 'a relay with TLS' },
  { program: 'tmux', package: 'tmux', for: 'clients at a terminal' },
  { program: 'git', package: 'git', for: 'finding the repository of a session' },
  { program: 'python3', package: 'python3', for: 'plain scripts beside us in a c2c broker' },
];
/** Set to 1, this forbids installing anything. */
const FORBID = 'PARLEY_TEST_NO_INSTALL';

export function systemPackages() {
  let missing = missingNow();
  if (missing.length === 0) return;
  const packages = missing.map((one) => one.package);
  const line = `apt-get install -y ${packages.join(' ')}`;
  if (process.getuid?.() === 0 && isThere('apt-get') && !process.env[FORBID]) {
    console.log(`The tests need these Debian packages: ${packages.join(', ')}.`);
    console.log(`Installing them now with \`${line}\` (to forbid that: ${FORBID}=1 npm test) …`);
    const options = { stdio: ['ignore', 2, 2], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
    spawnSync('apt-get', ['update', '-q'], options);
    spawnSync('apt-get', ['install', '-y', '-q', ...packages], options);
    missing = missingNow();
  } else {
    const how = isThere('apt-get') ? `sudo ${line}` : `install ${packages.join(', ')} with your package manager`;
    console.log(`Some tests will be skipped. To run them: ${how}`);
  }
  for (const one of missing) console.log(`skipped without ${one.program}: ${one.for}`);
  if (missing.length > 0 && process.env.CI === 'true') {
    console.log(`0 passed, ${missing.length} failed`);
    process.exit(1);
  }
}

function missingNow() {
  return NEEDED.filter(({ program }) => !isThere(program));
}

function isThere(program) {
  return spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0;
}
