import { RoomId } from '../../core/names.ts';
import type { AgentName } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { abilitiesOf } from './remote-identity.ts';
import { RelayHttp, isLoopbackUrl, RelayRefusal } from './remote-http.ts';
import type { RelayAddress } from './remote-http.ts';
import type { Abilities } from './remote-identity.ts';

/** The address of a relay as we keep it: without a slash at its end. Tokens go over https, or stay on this machine. */
export function relayAddress(text: string, insecure: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash) {
    throw new Refusal(
      'invalid_request',
      `"${text}" is no address of a relay; write https://host or http://localhost:7117`,
    );
  }
  if (url.username || url.password) {
    throw new Refusal('invalid_request', 'leave name and password out of the address; a relay knows you by your token');
  }
  if (url.protocol === 'http:' && !isLoopbackUrl(url) && !insecure) {
    throw new Refusal(
      'invalid_request',
      `over ${url.origin} everybody on the way could read your token and your mail; use https, or say --insecure if that network is yours`,
    );
  }
  return text.trim().replace(/\/+$/, '');
}

/** Two ways in: the room's token for a new name, one's own for a name that one has. */
export interface Tokens {
  room?: string | undefined;
  own?: string | undefined;
}

/** Registers an agent, and answers with the token by which it is known from now on. `issued`: it is a new one. */
export async function registerAt(
  place: Omit<RelayAddress, 'token'>,
  name: AgentName,
  tokens: Tokens,
): Promise<{ token: string | undefined; issued: boolean }> {
  const http = new RelayHttp(place);
  const register = async (token: string | undefined): Promise<string | undefined> => {
    const { data } = await http.ask('POST', '/v1/register', { body: { name }, token: token ?? null });
    const { token: issued } = (data ?? {}) as { token?: unknown };
    // It is shown and saved, and is in a header of every request from now on.
    if (issued === undefined || isToken(issued)) return issued;
    throw new Refusal('unreachable', `${place.url} issued a token that is none: a relay of another kind answers there`);
  };
  if (tokens.own !== undefined) {
    try {
      const issued = await register(tokens.own);
      return { token: issued ?? tokens.own, issued: issued !== undefined };
    } catch (error) {
      // The relay has forgotten us: then we are new there.
      if (tokens.room === undefined || !(error instanceof RelayRefusal && [401, 409].includes(error.status)))
        throw error;
    }
  }
  const issued = await register(tokens.room);
  return { token: issued ?? tokens.room, issued: issued !== undefined };
}

/** Makes a room. No token is shown: a relay that wants one says so. */
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

/** What a relay can do, at the moment of joining; undefined if it does not say now. */
export async function firstAbilities(place: RelayAddress): Promise<Abilities | undefined> {
  const told = await abilitiesOf(new RelayHttp(place)).catch(() => undefined);
  return told && { ...told, asked: Date.now() };
}
