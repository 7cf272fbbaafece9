import type { Env } from '../../core/env.ts';
import { claudeSettings } from '../../clients/claude/settings.ts';
import { stableProgram } from '../../clients/own-program.ts';
import type { Hook } from '../../clients/settings/client-settings.ts';
import { Installer, isHere, oneAtATime } from '../../clients/settings/installer.ts';
import { shellQuoted } from '../../delivery/hook-script.ts';
import { userHome } from '../../platform/env.ts';

const BY = 'ccc';
/** Longer than the time limit of a question, so that the hook ends by itself first. */
const TIMEOUT_S = 330;

/** Adds the hook that answers dialogs to Claude Code, if that is installed. Returns the outcome as lines. spec: control#dialog-hook */
export function installDialogHook(env: Env): string[] {
  const home = userHome(env);
  const target = { home, env, project: home };
  if (!isHere(claudeSettings, target)) return [];
  const again = 'ccc setup';
  const program = shellQuoted(stableProgram(env, again));
  const hook: Hook = {
    what: 'hook for dialogs',
    // If the program was removed, the client must not report a broken hook.
    command: () => `if [ -x ${program} ]; then exec ${program} ccc dialog; fi`,
    events: ['PermissionRequest'],
    mark: 'ccc dialog',
    timeout: TIMEOUT_S,
    anyEvent: true,
  };
  const additions = claudeSettings.hooks(target, hook).map((part) => ({ by: BY, owner: claudeSettings.name, ...part }));
  return oneAtATime(env, () =>
    new Installer(home, again).apply(additions, false).map(({ path, what, outcome }) => {
      const isNew = outcome === 'added' || outcome === 'replaced';
      return `${what} ${isNew ? 'added to' : 'is in'} ${path}`;
    }),
  );
}

/** Removes the hook. */
export function removeDialogHook(env: Env): string[] {
  const installer = new Installer(userHome(env), 'ccc uninstall-service');
  return oneAtATime(env, () =>
    installer.remove(installer.recorded(BY), false).map(({ path, what, outcome, why }) => {
      if (outcome === 'removed') return `${what} removed from ${path}`;
      return outcome === 'gone'
        ? `${what} was gone already from ${path}`
        : `${what} stays in ${path}: ${why ?? outcome}`;
    }),
  );
}
