import { Injection } from '../protocol/attention.ts';

/** The mode itself if it is possible, else the next quieter one that is; never a louder one. spec: c2a#fallback */
export function quieter(mode: Injection, can: Partial<Record<Injection, boolean>>): Injection {
  const modes = Injection.inner.options;
  const possible = (one: Injection): boolean => can[one] === true || one === 'tool_mailbox' || one === 'silent';
  return modes.slice(modes.indexOf(mode)).find(possible) ?? 'silent';
}
