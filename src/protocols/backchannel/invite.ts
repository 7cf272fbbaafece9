import * as v from 'valibot';
import { Refusal } from '../../core/refusal.ts';
import { Schema } from '../../core/schema.ts';
import type { Described } from '../../core/schema.ts';

const PREFIX = 'bch1-';

/** What a new agent needs to join a room of a relay. It contains the room token in clear. spec: BC-B8.1 */
const Content = new Schema(() =>
  v.object({
    url: v.pipe(v.string(), v.minLength(1)),
    token: v.optional(v.string()),
    room: v.optional(v.string()),
    channels: v.optional(v.array(v.string())),
  }),
);
export type Invite = Described<typeof Content>;

/** Writes the keys in the order of other programs. */
export function writeInvite({ url, token, room, channels }: Invite): string {
  const content = {
    url,
    ...(token && { token }),
    ...(room && { room }),
    ...(channels?.length && { channels }),
  };
  return PREFIX + Buffer.from(JSON.stringify(content)).toString('base64url');
}

/** The three error texts are the original's. */
export function readInvite(text: string): Invite {
  if (!text.startsWith(PREFIX)) {
    throw new Refusal('invalid_request', `not a backchannel invite (expected it to start with ${PREFIX})`);
  }
  const value = parsed(text.slice(PREFIX.length).trim());
  if (typeof value !== 'object' || value === null) throw new Refusal('invalid_request', 'malformed invite');
  const { url } = value as { url?: unknown };
  if (typeof url !== 'string' || url === '')
    throw new Refusal('invalid_request', 'malformed invite: missing relay url');
  const invite = Content.safeParse(value);
  if (!invite.success) throw new Refusal('invalid_request', 'malformed invite');
  return invite.data;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as unknown;
  } catch {
    return null;
  }
}
