// Runs npm and shows its progress. npm's own progress bar needs a terminal; this also works in a log.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';

const TICK_MS = 1000;
/** Without a terminal each report is a line of its own, so there are fewer of them. */
const LOG_EVERY_MS = 5000;

/** Runs npm in a folder and shows its progress if there is a package-lock.json. Resolves to true if npm succeeded. */
export function npm(args, folder) {
  const total = packagesFor(folder);
  const began = Date.now();
  let reported = 0;
  const report = () => {
    const now = Date.now();
    if (!process.stderr.isTTY && now - reported < LOG_EVERY_MS) return;
    reported = now;
    const here = total === null ? packagesIn(folder) : `${Math.min(packagesIn(folder), total)} of ${total}`;
    const line = `  npm ${args[0]}: ${here} packages, ${seconds(now - began)}`;
    process.stderr.write(process.stderr.isTTY ? `\r${line}\x1b[K` : `${line}\n`);
  };
  const flags = ['--no-audit', '--no-fund', '--no-progress', '--loglevel=error'];
  const child = spawn('npm', [...args, ...flags], { cwd: folder, stdio: ['ignore', 2, 2] });
  const timer = setInterval(report, TICK_MS);
  return new Promise((resolve) => {
    const end = (ok) => {
      clearInterval(timer);
      if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
      if (ok) console.error(`  npm ${args[0]}: done after ${seconds(Date.now() - began)}`);
      resolve(ok);
    };
    child.on('error', () => end(false));
    child.on('exit', (code) => end(code === 0));
  });
}

export function seconds(ms) {
  return `${Math.round(ms / 1000)} s`;
}

/** How many packages of the lock file belong on this machine; null if there is none. */
function packagesFor(folder) {
  if (!existsSync(`${folder}/package-lock.json`)) return null;
  const { packages } = JSON.parse(readFileSync(`${folder}/package-lock.json`, 'utf8'));
  const fits = (list, own) => !list || list.includes(own);
  return Object.entries(packages).filter(
    ([path, { os, cpu, libc }]) =>
      path !== '' && fits(os, process.platform) && fits(cpu, process.arch) && fits(libc, 'glibc'),
  ).length;
}

function packagesIn(folder) {
  const modules = `${folder}/node_modules`;
  if (!existsSync(modules)) return 0;
  const names = readdirSync(modules).filter((name) => !name.startsWith('.'));
  const scoped = names.filter((name) => name.startsWith('@'));
  return names.length - scoped.length + scoped.flatMap((scope) => readdirSync(`${modules}/${scope}`)).length;
}
