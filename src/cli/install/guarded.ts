import { NotEditable } from '../../clients/settings/not-editable.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { explained } from '../../storage/disk.ts';

/** Does something with a file of somebody else. What stands in the way is told with the name of the file, and what to do then. */
export function guarded<T>(path: string, again: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof NotEditable)) throw explained(error, path, 'it was left as it is');
    throw new Refusal('bad_config', `${path} ${error.message}; it is left as it is. Mend it, then \`${again}\` again`);
  }
}
