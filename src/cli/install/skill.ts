import text from '../../../SKILL.md' with { type: 'text' };
import type { Gift, InstallClient, Place } from '../../clients/install-client.ts';
import { skillPath } from '../../clients/skills.ts';

/** The skill as a file of ours, where the client looks for skills: how its model reads and answers mail. */
export function skillFiles(client: InstallClient, place: Place): Gift['files'] {
  const path = skillPath(client, place);
  return path === null ? [] : [{ path, what: 'skill', text }];
}
