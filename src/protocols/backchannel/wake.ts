import type { Env } from '../../core/env.ts';
import type { Addition } from '../../clients/settings/changes.ts';
import { join } from 'node:path';

const LABEL = 'parley-wake';

/** The command that runs `bch`: a stable path and its first arguments. */
interface OwnCommand {
  program: string;
  words: readonly string[];
}

/** A user service that notifies a person of urgent mail. It claims nothing: the agent still gets every message. */
export interface WakeService {
  step: Addition;
  /** The text after it is installed. */
  done: string;
  /** The files of the original's service. If one exists, ours is not needed. */
  others: string[];
  start: string[][];
  /** The text if it cannot be started, with the command to type. */
  byHand: string;
  /** The commands before its file is removed, and after. */
  stop: string[][];
  forget: string[][];
}

/** The command for each urgent message. A message's text is an argument, never code for the shell or AppleScript. */
const NOTIFY = {
  linux: `notify-send -- "bch: {{from}}" "{{body}}"`,
  darwin:
    `osascript -e 'on run argv' -e 'display notification (item 2 of argv) with title (item 1 of argv)' -e 'end run' ` +
    `"bch: {{from}}" "{{body}}"`,
} as const;

/** The service for this system, or null. */
export function wakeService(system: string, home: string, own: OwnCommand, env: Env): WakeService | null {
  if (system === 'linux') return systemdUnit(home, own, env);
  if (system === 'darwin') return launchdAgent(home, own, env);
  return null;
}

function systemdUnit(home: string, own: OwnCommand, env: Env): WakeService {
  const folder = join(home, '.config/systemd/user');
  const path = join(folder, `${LABEL}.service`);
  const settings = Object.entries(identity(env)).map(
    ([name, value]) => `Environment=${unitWord(`${name}=${value}`)}\n`,
  );
  const text = `[Unit]
Description=Tells you of urgent mail to your agents (bch setup --wake)

[Service]
ExecStart=${commandLine(own, NOTIFY.linux).map(unitWord).join(' ')}
${settings.join('')}Restart=always
RestartSec=5

[Install]
WantedBy=default.target
`;
  const user = ['systemctl', '--user'];
  return {
    step: aStep(path, text),
    done: `${path} tells you of urgent mail from now on, by: ${NOTIFY.linux}`,
    others: [join(folder, 'backchannel-wake.service')],
    start: [
      [...user, 'daemon-reload'],
      [...user, 'enable', '--now', `${LABEL}.service`],
    ],
    byHand: `${path} is written, and could not be started here; to start it: systemctl --user enable --now ${LABEL}`,
    stop: [[...user, 'disable', '--now', `${LABEL}.service`]],
    forget: [[...user, 'daemon-reload']],
  };
}

function launchdAgent(home: string, own: OwnCommand, env: Env): WakeService {
  const folder = join(home, 'Library/LaunchAgents');
  const path = join(folder, `${LABEL}.plist`);
  const log = join(home, '.backchannel/wake.log');
  const strings = commandLine(own, NOTIFY.darwin).map((word) => `    <string>${inXml(word)}</string>\n`);
  const settings = Object.entries(identity(env)).map(
    ([name, value]) => `    <key>${name}</key><string>${inXml(value)}</string>\n`,
  );
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
${pair('Label', `<string>${LABEL}</string>`)}
${pair('ProgramArguments', `<array>\n${strings.join('')}  </array>`)}
${pair('KeepAlive', '<true/>')}
${pair('RunAtLoad', '<true/>')}
${pair('StandardErrorPath', `<string>${inXml(log)}</string>`)}
${pair('StandardOutPath', `<string>${inXml(log)}</string>`)}
${pair('EnvironmentVariables', `<dict>\n${settings.join('')}  </dict>`)}
</dict>
</plist>
`;
  return {
    step: aStep(path, text),
    done: `${path} tells you of urgent mail from now on, by: ${NOTIFY.darwin}`,
    others: [join(folder, 'ai.unisonlabs.backchannel.wake.plist')],
    start: [['launchctl', 'load', path]],
    byHand: `${path} is written, and could not be started here; to start it: launchctl load ${path}`,
    stop: [['launchctl', 'unload', path]],
    forget: [],
  };
}

function pair(key: string, value: string): string {
  return `  <key>${key}</key>\n  ${value}`;
}

function aStep(path: string, text: string): Addition {
  return {
    by: 'bch',
    path,
    owner: 'wake',
    what: 'service for urgent mail',
    content: { format: 'whole', text },
    isThere: (found) => found === text,
  };
}

function commandLine({ program, words }: OwnCommand, exec: string): string[] {
  return [program, ...words, 'watch', '--urgent-only', '--peek', '--exec', exec];
}

/** The variables that name the agent: a service does not inherit the environment. Never includes a token. */
function identity(env: Env): Record<string, string> {
  const names = ['BACKCHANNEL_HOME', 'BACKCHANNEL_AGENT', 'BACKCHANNEL_URL', 'BACKCHANNEL_RELAY_ROOM'];
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}

/** One word of a unit file, escaped: systemd replaces specifiers and variables. */
function unitWord(word: string): string {
  const escaped = word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('$', '$$$$');
  return `"${escaped.replaceAll('\n', '\\n')}"`;
}

function inXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
