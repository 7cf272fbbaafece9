import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { tableIn } from '../../clients/install-client.ts';
import type { Wish } from '../../clients/settings/apply.ts';
import { readTree } from '../../clients/settings/jsonc-tree.ts';
import { inToml } from '../../clients/settings/text-block.ts';

/**
 * True if the user trusts a hook of ours in Codex. Codex notes that in config.toml, by the hook's file, its event and its two places
 * in the lists there. It skips a hook without such a note, and one that changed since: only Codex knows the hash.
 */
export function isTrusted(wish: Wish): boolean {
  const { path, content } = wish;
  const event = content.format === 'json' ? (content.at[1] ?? '') : '';
  try {
    const state = tableIn(inToml(readFileSync(join(path, '../config.toml'), 'utf8'), ['hooks', 'state']));
    const places = placesOf(wish, event).map((place) => `${snakeCase(event)}:${place}`);
    return places.some((place) =>
      [path, realpathSync(path)].some((file) => {
        const { trusted_hash: hash, enabled } = tableIn(state[`${file}:${place}`]);
        return typeof hash === 'string' && enabled !== false;
      }),
    );
  } catch {
    return false;
  }
}

/** Where our hook is in the lists of its event: `<group>:<hook>`. */
function placesOf({ path, isThere }: Wish, event: string): string[] {
  if (!existsSync(path)) return [];
  const groups = tableIn(tableIn(readTree(readFileSync(path, 'utf8')).value)['hooks'])[event];
  return listIn(groups).flatMap((group, at) =>
    listIn(tableIn(group)['hooks']).flatMap((hook, place) =>
      isThere(JSON.stringify({ hooks: { [event]: [{ hooks: [hook] }] } })) ? [`${at}:${place}`] : [],
    ),
  );
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function snakeCase(event: string): string {
  return event.replaceAll(/(?<=.)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}
