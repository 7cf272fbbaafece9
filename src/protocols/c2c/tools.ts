import { Refusal } from '../../protocol/refusal.ts';

/** What a field of a tool takes. */
type Kind = 'text' | 'number' | 'flag' | 'texts';

interface Tool {
  about: string;
  takes: Readonly<Record<string, Kind>>;
  needs?: readonly string[];
  /** Not in `tools/list` unless it is asked for: what is listed is in the context of every session. */
  rare?: true;
  /** It changes nothing. */
  looks?: true;
}

/** The tools of c2c. Fields that they do not know are left alone, as in the original. spec: c2c#tools */
export const C2C_TOOLS = {
  send: {
    about: 'Leave a message for a peer, by alias. It is stored; that it was read is not known.',
    takes: { to_alias: 'text', content: 'text', tag: 'text', deferrable: 'flag' },
    needs: ['to_alias', 'content'],
  },
  poll_inbox: { about: 'Take the messages that wait for you.', takes: {} },
  peek_inbox: { about: 'Look at the messages that wait for you and leave them there.', takes: {}, looks: true },
  list: { about: 'List the peers.', takes: { alive_only: 'flag' }, looks: true },
  whoami: { about: 'Say who you are here.', takes: {}, looks: true },
  history: { about: 'What you took before, newest first.', takes: { limit: 'number' }, looks: true },
  send_room: {
    about: 'Say something to everybody in a room.',
    takes: { room_id: 'text', content: 'text' },
    needs: ['room_id', 'content'],
  },
  my_rooms: { about: 'List the rooms that you are in.', takes: {}, looks: true },
  send_all: {
    about: 'Leave the same message for every peer that is not gone.',
    takes: { content: 'text', exclude_aliases: 'texts' },
    needs: ['content'],
    rare: true,
  },
  register: { about: 'Take an alias, or keep yours.', takes: { alias: 'text' }, rare: true },
  join_room: {
    about: 'Join a room and see what was said last.',
    takes: { room_id: 'text', history_limit: 'number' },
    needs: ['room_id'],
    rare: true,
  },
  leave_room: { about: 'Leave a room.', takes: { room_id: 'text' }, needs: ['room_id'], rare: true },
  room_history: {
    about: 'What was said in a room, oldest first.',
    takes: { room_id: 'text', limit: 'number', since: 'number' },
    needs: ['room_id'],
    rare: true,
    looks: true,
  },
  list_rooms: { about: 'List the rooms.', takes: {}, rare: true, looks: true },
  set_dnd: {
    about: 'Say whether you may be disturbed. Mail waits meanwhile.',
    takes: { on: 'flag', until_epoch: 'number' },
    needs: ['on'],
    rare: true,
  },
  dnd_status: { about: 'Say whether you are not to be disturbed.', takes: {}, rare: true, looks: true },
  open_pending_reply: {
    about: 'Note that you wait for a person’s answer.',
    takes: { perm_id: 'text', kind: 'text', supervisors: 'texts' },
    needs: ['perm_id', 'kind', 'supervisors'],
    rare: true,
  },
  check_pending_reply: {
    about: 'Check whether you may answer a question to people.',
    takes: { perm_id: 'text' },
    needs: ['perm_id'],
    rare: true,
    looks: true,
  },
  server_info: { about: 'What this server is.', takes: {}, rare: true, looks: true },
} as const satisfies Record<string, Tool>;

export type C2cTool = keyof typeof C2C_TOOLS;

type Value = { text: string; number: number; flag: boolean; texts: string[] };
type Takes<Name extends C2cTool> = (typeof C2C_TOOLS)[Name]['takes'];
/** What a tool was given: a field that it does not need may be missing. Tools that write also take `from_alias`, as the original's do. */
export type Given<Name extends C2cTool> = { from_alias?: string | undefined } & {
  [Field in keyof Takes<Name>]: Takes<Name>[Field] extends Kind ? Value[Takes<Name>[Field]] | undefined : never;
};

export function isC2cTool(name: string): name is C2cTool {
  return Object.hasOwn(C2C_TOOLS, name);
}

/** Reads what a tool was given. What is missing or of another kind is refused, by its name. */
export function readGiven<Name extends C2cTool>(name: Name, given: unknown): Given<Name> {
  const { takes, needs = [] }: Tool = C2C_TOOLS[name];
  const fields = (typeof given === 'object' && given !== null ? given : {}) as Record<string, unknown>;
  const read: Record<string, unknown> = {};
  // Not in the list of fields: a session writes under its own alias, and few calls say it.
  for (const [field, kind] of [...Object.entries(takes), ['from_alias', 'text'] as const]) {
    const value = fields[field] ?? undefined;
    if (value === undefined && needs.includes(field)) {
      throw new Refusal('invalid_request', `${name} needs ${field} (${KINDS[kind].words})`);
    }
    if (value !== undefined && !KINDS[kind].fits(value)) {
      throw new Refusal('invalid_request', `${field} is ${KINDS[kind].words}`);
    }
    read[field] = value;
  }
  return read as Given<Name>;
}

const KINDS: Record<Kind, { words: string; fits: (value: unknown) => boolean }> = {
  text: { words: 'a text', fits: (value) => typeof value === 'string' },
  number: { words: 'a number', fits: (value) => typeof value === 'number' && Number.isFinite(value) },
  flag: { words: 'true or false', fits: (value) => typeof value === 'boolean' },
  texts: {
    words: 'a list of texts',
    fits: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
  },
};
