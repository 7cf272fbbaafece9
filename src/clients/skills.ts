import { join } from 'node:path';
import type { ClientName, InstallClient, Place } from './install-client.ts';

/** Clients that were seen to list a skill of this place to their model. Gemini CLI and the older Kimi were not run: they get none. */
const WITH_SKILLS: readonly ClientName[] = ['claude', 'codex', 'opencode', 'kimi'];

/** Where a client looks for the skill of Parley; null if that is not known. */
export function skillPath(client: InstallClient, place: Place): string | null {
  const folder = client.folders(place).find((one) => one !== join(place.home, '.kimi'));
  return folder !== undefined && WITH_SKILLS.includes(client.name) ? join(folder, 'skills/parley/SKILL.md') : null;
}
