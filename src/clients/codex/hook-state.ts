import { tableIn } from '../install-client.ts';
import { readTree } from '../settings/jsonc-tree.ts';

/**
 * The keys under which Codex keeps its state of these hooks in config.toml: `<hooks.json>:post_tool_use:<group>:<hook>`, with the
 * places in the lists of hooks.json. `paths` are the names of that file, `text` is what it holds.
 */
export function trustKeys(
  { paths, text }: { paths: readonly string[]; text: string },
  isOurs: (event: string, hook: unknown) => boolean,
): string[] {
  const events = Object.entries(tableIn(tableIn(readTree(text).value)['hooks']));
  const places = events.flatMap(([event, groups]) =>
    listIn(groups).flatMap((group, at) =>
      listIn(tableIn(group)['hooks']).flatMap((hook, index) =>
        isOurs(event, hook) ? [`${codexEvent(event)}:${at}:${index}`] : [],
      ),
    ),
  );
  return paths.flatMap((path) => places.map((place) => `${path}:${place}`));
}

/** The name of an event in those keys: `PostToolUse` is `post_tool_use`. */
export function codexEvent(event: string): string {
  return event.replaceAll(/(?<=.)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
