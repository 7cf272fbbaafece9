import { readdirSync } from 'node:fs';
import { SignFile } from '../../sessions/sign-file.ts';
import { signFileOf } from '../../sessions/sign-hook.ts';
import type { Sign, Signs } from '../../sessions/sign.ts';
import { ifThere } from '../../storage/disk.ts';
import { HookSession, hookFolder } from '../dialects/c2c/hook-session.ts';
import { userHome } from '../env.ts';
import type { Env } from '../env.ts';
import { signsFolder } from './folders.ts';
import type { Wanted } from './wanted.ts';

/** What the client says of itself: its own register, its plugin's state, or what its hooks left. */
export async function signsOf(wanted: Wanted, env: Env): Promise<Signs> {
  if (wanted.client === 'claude') return claudeSigns(wanted, env);
  if (wanted.client !== 'opencode') return new HookSigns(wanted, env);
  const [{ OpenCodeSigns }, { statefilePath }] = await Promise.all([
    import('../../clients/opencode/signs.ts'),
    import('../../sessions/statefile.ts'),
  ]);
  const path = statefilePath({ ...env, HOME: userHome(env) }, wanted.options.instance);
  return new OpenCodeSigns({ path, sessionId: wanted.session });
}

async function claudeSigns({ session, pid }: Wanted, env: Env): Promise<Signs> {
  const { ClaudeSigns } = await import('../../clients/claude/signs.ts');
  return new ClaudeSigns(env['CLAUDE_CONFIG_DIR'] || `${userHome(env)}/.claude`, session, pid);
}

/** The newest of what hooks left under any name that this session has. */
class HookSigns implements Signs {
  constructor(
    readonly wanted: Wanted,
    readonly env: Env,
  ) {}

  async latest(): Promise<Sign | null> {
    const folder = signsFolder(this.env);
    const names = new Set([this.wanted.session, ...this.#otherNames()]);
    const files = [...names].map((name) => new SignFile(signFileOf(folder, name)));
    const signs = (await Promise.all(files.map((file) => file.latest()))).filter((sign) => sign !== null);
    return signs.toSorted((a, b) => b.at - a.at)[0] ?? null;
  }

  /** The client's own names for it, where it is certain that they are: a guess by its folder may be another session's. */
  #otherNames(): string[] {
    const { broker_root, session } = this.wanted;
    const folder = hookFolder(this.env);
    return (ifThere(() => readdirSync(folder)) ?? []).filter((name) => {
      const bound = HookSession.open(folder, name)?.bound();
      return bound?.sure && bound.root === broker_root && bound.sessionId === session;
    });
  }
}
