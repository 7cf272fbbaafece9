import type { AgentName } from '../../../protocol/names.ts';
import { folderFor, readIdentity, writeIdentity } from '../../../storage/relay/identity.ts';
import { firstAbilities, registerAt, relayAddress } from '../../../storage/relay/register.ts';
import type { Bch } from './bch.ts';
import { becomeAgent } from './config.ts';
import { relayInUse, roomAt, tokenAt } from './elsewhere.ts';

export interface Admission {
  url: string;
  /** The room that an invite names; otherwise the one in use there. */
  room?: string | undefined;
  roomToken?: string | undefined;
  /** An invite brings the room's token only: whoever is there already is refused, as the original is. */
  byInvite?: boolean;
  insecure: boolean;
}

/** Registers an agent at a relay and makes it the current one. Each agent's token is kept, in a file that only its owner reads. */
export async function enlistAt(
  bch: Bch,
  agent: AgentName,
  admission: Admission,
): Promise<{ url: string; issued: boolean }> {
  const { env, config, root } = bch;
  // An address that is in use already was accepted before.
  const inUse = admission.url.replace(/\/+$/, '') === relayInUse(env, config)?.url && !admission.byInvite;
  const url = relayAddress(admission.url, admission.insecure || inUse);
  const room = admission.byInvite ? admission.room : roomAt(url, env, config);
  const place = { agent, url, ...(room && { room }) };
  keepCurrent(bch);
  const saved = readIdentity(folderFor(root, place));
  const own = admission.byInvite
    ? undefined
    : (tokenAt({ url, ...(room && { room }) }, agent, {}, config) ?? saved?.token);
  const given = admission.roomToken ?? (admission.byInvite ? undefined : env['BACKCHANNEL_TOKEN']);
  const { token, issued } = await registerAt(place, agent, { room: given, own });
  const abilities = await firstAbilities(place);
  writeIdentity(folderFor(root, place), { v: 1, ...place, ...(token && { token }), ...(abilities && { abilities }) });
  becomeAgent(root, agent, { url, ...(token && { token }), ...(room && { room }) });
  return { url, issued };
}

/** Whoever was the current agent, perhaps by another program, can be it again. */
function keepCurrent({ root, config }: Bch): void {
  const { agent, url, token } = config;
  if (!agent || !url || !token || !URL.canParse(url)) return;
  const at = url.replace(/\/+$/, '');
  const room = roomAt(at, {}, config);
  const place = { agent: agent as AgentName, url: at, ...(room && { room }) };
  const folder = folderFor(root, place);
  const saved = readIdentity(folder);
  if (saved?.token !== token) writeIdentity(folder, { ...saved, v: 1, ...place, token });
}
