// `systemctl --user …` for one unit, as far as our program uses it: it reads the unit, starts its program with nothing but the unit's
// environment, and ends it as the unit says. Words: the folder of its state, then those of systemctl.
import { spawn } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';

const [folder = '', ...words] = process.argv.slice(2);
const { HOME: home = '' } = process.env;
const unit = `${home}/.config/systemd/user/ccc.service`;
const link = `${home}/.config/systemd/user/default.target.wants/ccc.service`;
const said = words.filter((word) => word !== '--user');
const [verb = ''] = said;
appendFileSync(`${folder}/calls`, `systemctl ${words.join(' ')}\n`);
if (!words.includes('--user')) fail('only --user is known here');
if (existsSync(`${folder}/no-bus`)) fail('Failed to connect to bus: No medium found');

function fail(why: string): never {
  console.error(why);
  process.exit(1);
}

function loaded(): string | null {
  return existsSync(`${folder}/loaded`) ? readFileSync(`${folder}/loaded`, 'utf8') : null;
}

function mainPid(): number | null {
  if (!existsSync(`${folder}/pid`)) return null;
  const pid = Number(readFileSync(`${folder}/pid`, 'utf8'));
  return isAlive(pid) ? pid : null;
}

function isAlive(pid: number): boolean {
  try {
    // Its parent has ended, and nobody may wait for it: what is left of it is no process.
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

const plain = (text: string): string => text.replace(/\\(.)/g, '$1').replaceAll('%%', '%');

/** It failed too often, a moment ago. */
const failed = `${folder}/failed`;

function start(): void {
  if (mainPid() !== null) return;
  if (existsSync(failed)) fail('Job for ccc.service failed. Start request repeated too quickly.');
  const text = loaded() ?? fail('Unit ccc.service not found.');
  const [, program = '', rest = ''] = /^ExecStart="((?:[^"\\]|\\.)*)" (.*)$/m.exec(text) ?? [];
  const variables = [...text.matchAll(/^Environment="(\w+)=((?:[^"\\]|\\.)*)"$/gm)];
  const env = Object.fromEntries(variables.map(([, name = '', value = '']) => [name, plain(value)]));
  const log = openSync(`${folder}/log`, 'a');
  const child = spawn(plain(program), rest.split(' '), {
    cwd: home,
    env: { ...env, HOME: home, FAKE_CGROUP: folder },
    detached: true,
    stdio: ['ignore', log, log],
  });
  writeFileSync(`${folder}/pid`, String(child.pid));
  child.unref();
}

async function stop(): Promise<void> {
  const pid = mainPid();
  const isAlone = /^KillMode=process$/m.test(loaded() ?? '');
  const ended = isAlone ? [] : inGroup();
  if (pid !== null) process.kill(pid, 'SIGTERM');
  while (pid !== null && isAlive(pid)) await Bun.sleep(20);
  for (const one of ended) if (isAlive(one)) process.kill(one, 'SIGKILL');
  rmSync(`${folder}/pid`, { force: true });
}

/** What was started by the service, at any depth. */
function inGroup(): number[] {
  const pids = readdirSync('/proc').map(Number).filter(Boolean);
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`FAKE_CGROUP=${folder}`);
    } catch {
      return false;
    }
  });
}

switch (verb) {
  case 'daemon-reload':
    if (existsSync(unit)) writeFileSync(`${folder}/loaded`, readFileSync(unit));
    else rmSync(`${folder}/loaded`, { force: true });
    break;
  case 'show': {
    const pid = mainPid();
    const isOld = loaded() !== null && existsSync(unit) && readFileSync(unit, 'utf8') !== loaded();
    const other = `${folder}/other-file`;
    const file = existsSync(other) ? readFileSync(other, 'utf8') : loaded() === null ? '' : unit;
    console.log(`FragmentPath=${file}`);
    console.log(`ActiveState=${pid !== null ? 'active' : existsSync(failed) ? 'failed' : 'inactive'}`);
    console.log(`UnitFileState=${existsSync(link) ? 'enabled' : 'disabled'}`);
    console.log(`MainPID=${pid ?? 0}\nNeedDaemonReload=${isOld ? 'yes' : 'no'}`);
    break;
  }
  case 'enable':
    mkdirSync(link.slice(0, link.lastIndexOf('/')), { recursive: true });
    if (!existsSync(link)) symlinkSync(unit, link);
    if (said.includes('--now')) start();
    break;
  case 'disable':
    rmSync(link, { force: true });
    if (said.includes('--now')) await stop();
    break;
  case 'start':
    start();
    break;
  case 'reset-failed':
    rmSync(failed, { force: true });
    break;
  case 'stop':
    await stop();
    break;
  case 'restart':
    await stop();
    start();
    break;
  default:
    fail(`Unknown command verb ${verb}.`);
}
