import { openWorkspace } from '../../src/daemon/homes.ts';
import type { Workspace, Home } from '../../src/core/mail/workspace.ts';
import { BODY_LIMIT, Draft } from '../../src/core/message.ts';
import { AgentName } from '../../src/core/names.ts';
import { temporaryHome } from './home.ts';

/** A workspace on a fresh home (and, if asked for, a Backchannel home beside it), with these agents. */
export async function aDurableWorkspace(...names: string[]): Promise<Workspace & { own: Home }> {
  const workspace = openWorkspace(
    { PARLEY_HOME: temporaryHome(), BACKCHANNEL_HOME: `${temporaryHome()}/none` },
    { bodyLimit: BODY_LIMIT, durability: 'normal' },
  );
  const [own] = workspace.homes;
  if (!own) throw new Error('a workspace has a home');
  for (const name of names) await own.directory.register(AgentName.parse(name), 'agent');
  return { ...workspace, own };
}

/** A draft to bob, unless told otherwise. */
export function aDraft(fields: Record<string, unknown> = {}): Draft {
  return Draft.parse({ to: '@bob', body: 'hello', ...fields });
}
