import { openWorkspace } from '../../daemon/homes.ts';
import { openBroker } from '../../protocols/c2c/open-broker.ts';
import { agentSessions } from '../agent-sessions.ts';
import { examineBindings, examineOlderLines } from '../doctor/installed.ts';
import { existsSync } from 'node:fs';
import type { Context } from '../context.ts';
import { on } from '../doctor/finding.ts';
import type { Finding } from '../doctor/finding.ts';
import { examineHook, examineMachine } from '../doctor/machine.ts';
import { examineLedger, examineOwner, examinePlace, waitingIn } from '../doctor/home.ts';
import { examineAgents, examineMail, examineRelayMailboxes } from '../doctor/mail.ts';
import { examinePermissions } from '../doctor/permissions.ts';
import { examineIdentity, examineSettings } from '../doctor/settings.ts';
import type { WaitingMail } from '../doctor/home.ts';
import { examineControl } from '../doctor/control.ts';
import { examineService } from '../doctor/service.ts';
import { examineWays } from '../doctor/ways.ts';
import { command } from '../../core/command.ts';
import type { Home } from '../../core/mail/workspace.ts';
import { parleyHome, userHome } from '../../platform/env.ts';
import { BODY_LIMIT } from '../../core/message.ts';
import { Refusal } from '../../core/refusal.ts';
import { NoRelayAnswer } from '../../protocols/backchannel/remote-http.ts';
import { brokerRoot } from '../../protocols/c2c/broker-root.ts';

const doctorCommand = command({
  usage: 'doctor',
  about:
    'Checks the program, the settings, the clients and every home, and says what to do about each problem. It changes nothing without --fix.\n' +
    'ok: checked, no problem. warn: look at it. bad: something does not work. The exit code is 1 if something is bad, otherwise 0.',
  options: {
    fix: { type: 'boolean', help: 'remove the access of other users to the home, and drafts of senders that crashed' },
  },
  examples: ['parley doctor', 'parley doctor --fix', 'parley doctor --json'],
  async run(context: Context, values) {
    const findings = await examine(context, values.fix ?? false);
    const isWell = findings.every((finding) => finding.level !== 'bad');
    process.exitCode = isWell ? 0 : 1;
    const count = (level: Finding['level']): number => findings.filter((finding) => finding.level === level).length;
    const counts = { ok: count('ok'), warn: count('warn'), bad: count('bad') };
    if (context.json) return context.sayJson({ well: isWell, counts, findings });
    const width = Math.max(...findings.map((finding) => finding.about.length)) + 2;
    for (const finding of findings) context.say(line(context, finding, width));
    context.say(`\n${counts.ok} ok, ${counts.warn} to look at, ${counts.bad} bad`);
  },
});

async function examine(context: Context, fix: boolean): Promise<Finding[]> {
  const { loaded, findings } = examineSettings(context);
  // The homes are checked even if the settings are broken.
  const workspace = loaded
    ? context.workspace
    : openWorkspace(context.env, { bodyLimit: BODY_LIMIT, durability: 'normal' });
  findings.unshift(...examineMachine(context.env));
  if (loaded) findings.push(await examineIdentity(loaded, workspace));
  if (existsSync(parleyHome(context.env))) findings.push(examineHook(context.env));
  const waiting: WaitingMail[] = [];
  const ofHomes: Finding[] = [];
  for (const home of workspace.homes) ofHomes.push(...(await examineHome(home, workspace.now(), fix, waiting)));
  const clients = [...(await examineClients(context, waiting)), ...examineOlderLines(context.env, context.cwd)];
  const bindings = await examineBindings(context.env, workspace);
  const { env } = context;
  return [
    ...findings,
    ...clients,
    ...bindings,
    ...examineControl(env),
    ...examineService(env),
    ...ofHomes,
    ...examineRelayMailboxes(env),
  ];
}

/** The clients that are here, the sessions of this folder's broker, and those of Parley. */
async function examineClients({ env, cwd }: Context, waiting: readonly WaitingMail[]): Promise<Finding[]> {
  const root = brokerRoot(env, cwd);
  try {
    const sessions = existsSync(`${root}/registry.json`) ? await openBroker(root).broker.sessions() : [];
    const usesC2c = [`${userHome(env)}/.c2c`, root].some((path) => existsSync(path));
    const troubles: Finding[] = [];
    const agents = await agentSessions(env, (trouble) =>
      troubles.push(on('clients').warn(trouble, 'check that its files can be read')),
    );
    return [...troubles, ...(await examineWays(env, cwd, sessions, waiting, usesC2c, agents))];
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [on('clients').warn(`their sessions cannot be checked: ${why}`, 'check the c2c broker of this folder')];
  }
}

/** From the outside in: each step checks only what the step before found usable. Adds the mail that must be answered to `waiting`. */
async function examineHome(home: Home, now: number, fix: boolean, waiting: WaitingMail[]): Promise<Finding[]> {
  const findings = examinePlace(home);
  if (!existsSync(home.root)) return findings;
  try {
    findings.push(examinePermissions(home, fix));
    const { usable, findings: onLedger } = examineLedger(home);
    findings.push(...onLedger, ...(await examineAgents(home)), ...(await examineOwner(home)));
    if (usable) {
      findings.push(...(await examineMail(home, now, fix)));
      waiting.push(...(await waitingIn(home)));
    }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const { warn, bad } = on(`home ${home.label}`);
    if (error instanceof NoRelayAnswer)
      findings.push(warn(why, 'start the relay, or check the network; what you send waits in the outbox'));
    else if (error instanceof Refusal) findings.push(bad(`it cannot be checked: ${why}`, 'correct that first'));
    else findings.push(bad(`it cannot be checked: ${why}`, 'check its permissions, and report it if they are right'));
  }
  return findings;
}

function line({ paint }: Context, { level, about, what, next, fixed }: Finding, width: number): string {
  const colour = { ok: paint.green, warn: paint.yellow, bad: paint.red }[level];
  const word = fixed ? 'fixed' : level;
  return `${colour(word.padEnd(7))}${about.padEnd(width)}${what}${next ? paint.dim(` → ${next}`) : ''}`;
}

export const commands = {
  doctor: doctorCommand,
};
