import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { codexEvent, trustKeys } from '../../clients/codex/hook-state.ts';
import { tableIn } from '../../clients/install-client.ts';
import type { Wish } from '../../clients/settings/apply.ts';
import { inToml } from '../../clients/settings/text-block.ts';
import { parleyHome } from '../env.ts';
import type { Env } from '../env.ts';
import { namesIn } from '../../delivery/hook-session.ts';
import type { Done } from './carry-out.ts';

/**
 * True if the user trusts a hook of ours in Codex. Codex notes that in config.toml, by the hook's file, its event and its two places
 * in the lists there. It skips a hook without such a note, and one that changed since. Only Codex can compute the hash, so a hash
 * counts unless we noted that the hook changed under it.
 */
export function isTrusted(wish: Wish, env: Env): boolean {
  const { path, content } = wish;
  const event = content.format === 'json' ? (content.at[1] ?? '') : '';
  try {
    const hooks = { paths: [path, realpathSync(path)], text: readFileSync(path, 'utf8') };
    const keys = trustKeys(
      hooks,
      (at, hook) => at === event && wish.isThere(JSON.stringify({ hooks: { [event]: [{ hooks: [hook] }] } })),
    );
    const outdated = namesIn(outdatedFolder(env));
    return trustedHooks(path).some(({ key, hash }) => keys.includes(key) && !outdated.includes(nameOf(hash)));
  } catch {
    return false;
  }
}

/** Notes the hashes of hooks that an installation has just changed: they are no trust in the new lines. */
export function noteChangedHooks(env: Env, done: readonly Done[]): void {
  const changed = done.filter(({ path, outcome }) => outcome === 'replaced' && path.endsWith('/hooks.json'));
  const hashes = changed.flatMap(({ path, what }) => {
    const event = codexEvent(/^\w+ at (\w+)$/.exec(what)?.[1] ?? '');
    return trustedHooks(path).filter(({ key }) => key.includes(`hooks.json:${event}:`));
  });
  if (hashes.length === 0) return;
  mkdirSync(outdatedFolder(env), { recursive: true, mode: 0o700 });
  for (const { hash } of hashes) writeFileSync(join(outdatedFolder(env), nameOf(hash)), '', { mode: 0o600 });
}

/** What Codex notes of the hooks that its user trusts. None if its settings cannot be read. */
function trustedHooks(path: string): { key: string; hash: string }[] {
  try {
    const state = tableIn(inToml(readFileSync(join(dirname(path), 'config.toml'), 'utf8'), ['hooks', 'state']));
    return Object.entries(state).flatMap(([key, note]) => {
      const { trusted_hash: hash, enabled } = tableIn(note);
      return typeof hash === 'string' && enabled !== false ? [{ key, hash }] : [];
    });
  } catch {
    return [];
  }
}

/** One empty file for each hash. */
function outdatedFolder(env: Env): string {
  return join(parleyHome(env), 'codex-changed-hooks');
}

function nameOf(hash: string): string {
  return hash.replaceAll(/[^A-Za-z0-9]/g, '-').slice(0, 100);
}
