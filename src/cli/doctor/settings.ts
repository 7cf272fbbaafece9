import type { Env } from '../../core/env.ts';
import { existsSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { Workspace } from '../../core/mail/workspace.ts';
import { parleyHome } from '../../platform/env.ts';
import { Refusal } from '../../core/refusal.ts';
import type { Context } from '../context.ts';
import type { Loaded } from '../settings.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';

/** The settings, if they can be read, and what is wrong with them. */
export function examineSettings(context: Context): { loaded: Loaded | null; findings: Finding[] } {
  const { ok, warn, bad } = on('config');
  const path = join(parleyHome(context.env), 'config.json');
  const findings = relativeHomes(context.env);
  try {
    const { loaded } = context;
    findings.push(...loaded.warnings.map((warning) => warn(warning, adviceFor(warning))));
    if (findings.length === 0)
      findings.push(ok(existsSync(path) ? `${path} is read` : 'no config.json: the defaults apply'));
    return { loaded, findings };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { loaded: null, findings: [...findings, bad(error.message, 'correct it: every command needs it')] };
  }
}

function adviceFor(warning: string): string {
  return warning.includes('`parley trust`')
    ? 'read the file; if you trust it, run `parley trust` there'
    : 'correct it; `parley config` shows the values in use';
}

function relativeHomes(env: Env): Finding[] {
  return ['PARLEY_HOME', 'BACKCHANNEL_HOME']
    .filter((name) => env[name] && !isAbsolute(env[name]))
    .map((name) =>
      on('config').warn(
        `${name}=${env[name] ?? ''} is a relative path: another folder in every working directory`,
        'use a path that begins with /',
      ),
    );
}

/** Who acts here, and whether there is such a mailbox. */
export async function examineIdentity(loaded: Loaded, workspace: Workspace): Promise<Finding> {
  const { ok, warn, bad } = on('identity');
  const { agent } = loaded.settings;
  const from = loaded.origins.find((origin) => origin.name === 'agent')?.from ?? 'default';
  if (!agent) return warn('no agent is set', '`parley init <name>` makes a mailbox');
  for (const home of workspace.homes) {
    if (await home.directory.get(agent)) return ok(`@${agent} in home ${home.label} (from ${from})`);
  }
  return bad(`@${agent} (from ${from}) has no mailbox`, `\`parley init ${agent}\`, or name another agent`);
}
