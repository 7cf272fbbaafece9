import { RoomId } from '../../core/names.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { abilitiesOf } from './remote-identity.ts';
import { RelayHttp, isLoopbackUrl, RelayRefusal } from './remote-http.ts';
import type { RelayAddress } from './remote-http.ts';
import type { Abilities } from './remote-identity.ts';

/** The address of a relay, without a slash at its end. Refuses http to another machine, because it would expose tokens. */
export function relayAddress(text: string, insecure: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash) {
    throw new Refusal(
      'invalid_request',
      `"${text}" is not the address of a relay; write https://host or http://localhost:7117`,
    );
  }
  if (url.username || url.password) {
    throw new Refusal('invalid_request', 'leave name and password out of the address; a relay knows you by your token');
  }
  if (url.protocol === 'http:' && !isLoopbackUrl(url) && !insecure) {
    throw new Refusal(
      'invalid_request',
      `anyone on the way to ${url.origin} could read your token and your mail; use https, or give --insecure if that network is yours`,
    );
  }
  return text.trim().replace(/\/+$/, '');
}

/** Tokens for registering: the room's for a new name, the agent's own for a name that it has. */
export interface Tokens {
  room?: string | undefined;
  own?: string | undefined;
}

/** Registers an agent and returns its token. `issued`: the token is new. */
export async function registerAt(
  place: Omit<RelayAddress, 'token'>,
  name: AgentName,
  tokens: Tokens,
): Promise<{ token: string | undefined; issued: boolean }> {
  const http = new RelayHttp(place);
  const register = async (token: string | undefined): Promise<string | undefined> => {
    const { data } = await http.ask('POST', '/v1/register', { body: { name }, token: token ?? null });
    const { token: issued } = (data ?? {}) as { token?: unknown };
    // The token is printed, saved and sent in a header, so it must be well formed.
    if (issued === undefined || isToken(issued)) return issued;
    throw new Refusal('unreachable', `${place.url} issued a malformed token: another kind of server answers there`);
  };
  if (tokens.own !== undefined) {
    try {
      const issued = await register(tokens.own);
      return { token: issued ?? tokens.own, issued: issued !== undefined };
    } catch (error) {
      // The relay does not know our token any longer: register as a new agent.
      if (tokens.room === undefined || !(error instanceof RelayRefusal && [401, 409].includes(error.status)))
        throw error;
    }
  }
  const issued = await register(tokens.room);
  return { token: issued ?? tokens.room, issued: issued !== undefined };
}

/** Makes a room. Sends no token: a relay that needs one refuses. */
export async function makeRoom(url: string): Promise<{ room: string; token: string }> {
  const { data } = await new RelayHttp({ url }).ask('POST', '/v1/rooms');
  const { roomId, roomToken } = (data ?? {}) as { roomId?: unknown; roomToken?: unknown };
  const room = RoomId.safeParse(roomId);
  if (room.success && isToken(roomToken)) return { room: room.data, token: roomToken };
  throw new Refusal('unreachable', `${url} made no room: its answer names none`);
}

function isToken(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]{1,1000}$/.test(value);
}

/** A relay's features at the time of joining; undefined if it does not answer. */
export async function firstAbilities(place: RelayAddress): Promise<Abilities | undefined> {
  const told = await abilitiesOf(new RelayHttp(place)).catch(() => undefined);
  return told && { ...told, asked: Date.now() };
}
