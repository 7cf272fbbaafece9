import { realpathSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { isLasting } from '../../clients/own-program.ts';
import { ifThere } from '../../core/disk.ts';
import type { Env } from '../../core/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { userHome } from '../../platform/env.ts';

/** The names of the files, as other programs and people expect them. */
export const SYSTEMD_UNIT = 'ccc.service';
const LAUNCHD_LABEL = 'parley.ccc';

/** The file that describes the service to systemd or launchd. */
export interface UnitFile {
  path: string;
  text: string;
}

/** The file that starts `program ccc listen` when the user logs in. spec: control#service */
export function unitFor(program: string, env: Env, platform: NodeJS.Platform = process.platform): UnitFile {
  const text = platform === 'darwin' ? launchdPlist(program, env) : systemdUnit(program, env);
  return { path: unitPath(env, platform), text };
}

export function unitPath(env: Env, platform: NodeJS.Platform = process.platform): string {
  return platform === 'darwin'
    ? `${userHome(env)}/Library/LaunchAgents/${LAUNCHD_LABEL}.plist`
    : `${userHome(env)}/.config/systemd/user/${SYSTEMD_UNIT}`;
}

/** `ours`: as we wrote it. `changed`: we wrote it, and a person changed it. `foreign`: a person or another program wrote it. */
export function writerOf(text: string): 'ours' | 'changed' | 'foreign' {
  const mark = /^.*Parley wrote this \(sum ([0-9a-f]{12})\).*\n/m.exec(text);
  if (!mark) return 'foreign';
  return sumOf(text.replace(mark[0], '')) === mark[1] ? 'ours' : 'changed';
}

/** The program and the search path of a systemd unit of ours; null where it names none. */
export function unitParts(text: string): { program: string | null; path: string | null } {
  const plain = (quoted: string | undefined): string | null =>
    quoted?.replace(/\\(.)/g, '$1').replaceAll('%%', '%') ?? null;
  return {
    program: plain(/^ExecStart="((?:[^"\\]|\\.)*)" /m.exec(text)?.[1]),
    path: plain(/^Environment="PATH=((?:[^"\\]|\\.)*)"$/m.exec(text)?.[1]),
  };
}

/**
 * The variables that the service gets: locations and text encoding. No others, because everyone may read the file and they may be secret.
 * Sessions that the service starts get the same variables.
 */
const CARRIED = [
  'PARLEY_HOME',
  'CLAUDE_CONFIG_DIR',
  'CODEX_HOME',
  'KIMI_CODE_HOME',
  'XDG_DATA_HOME',
  'TMUX_TMPDIR',
  'LANG',
  'LC_ALL',
  'LC_CTYPE',
];

function variables(env: Env): [name: string, value: string][] {
  const carried = CARRIED.flatMap((name): [string, string][] => {
    const value = env[name];
    return value && !/\p{Cc}/u.test(value) ? [[name, value]] : [];
  });
  return [['PATH', servicePath(env)], ...carried];
}

/**
 * The search path of the service: that of the user's shell now, so that tmux and the clients are found. Folders that exist only as long as
 * the shell are left out or replaced by their target, and so are npm's folders of one project.
 */
export function servicePath(env: Env): string {
  const given = (env['PATH'] ?? '').split(':').filter((folder) => isAbsolute(folder) && !/\p{Cc}/u.test(folder));
  const lasting = given.flatMap((folder) => {
    const real = ifThere(() => realpathSync(folder));
    const kept = [folder, real].find((one) => one !== null && isLasting(one, env));
    return real !== null && kept !== undefined && kept !== null && !kept.endsWith('/node_modules/.bin') ? [kept] : [];
  });
  return [...new Set([...lasting, '/usr/local/bin', '/usr/bin', '/bin'])].join(':');
}

/**
 * `KillMode=process`: a tmux server that was started from the service belongs to it, and a stop must end neither that nor the sessions in it.
 * `OOMPolicy=continue`: a client that runs out of memory does not end the server.
 */
function systemdUnit(program: string, env: Env): string {
  if (/["'\\\p{Cc}]/u.test(program))
    throw new Refusal(
      'invalid_request',
      `systemd starts no program with a quote or a backslash in its path: ${program}`,
    );
  const body = `[Unit]
Description=Prompts for coding sessions on ~/.ccc.sock (Parley)
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
ExecStart="${systemdText(program)}" ccc listen
WorkingDirectory=%h
${variables(env)
  .map(([name, value]) => `Environment="${name}=${systemdText(value)}"`)
  .join('\n')}
KillMode=process
OOMPolicy=continue
TimeoutStopSec=10
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
`;
  return `# Parley wrote this (sum ${sumOf(body)}). Your changes: systemctl --user edit ccc. To remove it: parley service uninstall\n${body}`;
}

/** As text in double quotes. */
function systemdText(text: string): string {
  return text.replace(/["\\]/g, '\\$&').replaceAll('%', '%%');
}

/** Written from the documentation of launchd; not tested on a Mac yet. */
function launchdPlist(program: string, env: Env): string {
  const logs = `${userHome(env)}/Library/Logs/ccc.log`;
  const head = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
`;
  const body = `<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${LAUNCHD_LABEL}</string>
  <key>ProgramArguments</key>
  <array>
    <string>${xmlText(program)}</string>
    <string>ccc</string>
    <string>listen</string>
  </array>
  <key>EnvironmentVariables</key>
  <dict>
${variables(env)
  .map(([name, value]) => `    <key>${name}</key>\n    <string>${xmlText(value)}</string>`)
  .join('\n')}
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>AbandonProcessGroup</key>
  <true/>
  <key>StandardErrorPath</key>
  <string>${xmlText(logs)}</string>
</dict>
</plist>
`;
  return `${head}<!-- Parley wrote this (sum ${sumOf(head + body)}). To remove it: parley service uninstall -->\n${body}`;
}

function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function sumOf(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 12);
}
