/** Who asks, how and where, with what. A name stands for that agent’s token, `room` for the room’s, `nobody` for none. */
export type Ask = [who: string, method: string, path: string, body?: unknown, headers?: Record<string, string>];

const IN_ROOM = { 'x-backchannel-room': 'ROOM' };

/** To these every relay answers the same. A body that is a text is sent as it is. */
export const SAME: Ask[] = [
  ['nobody', 'GET', '/v1/health'],
  ['nobody', 'GET', '//v1/health?x=1'],
  ['nobody', 'POST', '/v1/health', {}],
  ['nobody', 'GET', '/v1/health/'],
  ['nobody', 'GET', '/'],
  ['nobody', 'GET', '/nope'],
  // Registering.
  ['room', 'POST', '/v1/register', { name: 'ann', subscriptions: ['#mine'], tokenHash: 'x' }],
  ['room', 'POST', '/v1/register', { name: 'bob' }],
  ['room', 'POST', '/v1/register', { name: 'a..' }],
  ['room', 'POST', '/v1/register', { name: 'Zed' }],
  ['room', 'POST', '/v1/register', { name: '.x' }],
  ['room', 'POST', '/v1/register', { name: '' }],
  ['room', 'POST', '/v1/register', '{'],
  ['nobody', 'POST', '/v1/register', { name: 'new' }],
  ['wrong', 'POST', '/v1/register', { name: 'new' }],
  ['room', 'POST', '/v1/register', { name: 'ann' }],
  ['bob', 'POST', '/v1/register', { name: 'ann' }],
  ['ann', 'POST', '/v1/register', { name: 'ann' }],
  ['nobody', 'POST', '/v1/register', { name: 'lower' }, { authorization: 'bearer room' }],
  ['nobody', 'POST', '/v1/register', { name: 'bare' }, { authorization: 'room' }],
  ['nobody', 'POST', '/v1/register', { name: 'basic' }, { authorization: 'Basic room' }],
  ['room', 'GET', '/v1/register'],
  // Who is here.
  ['nobody', 'GET', '/v1/agents'],
  ['room', 'GET', '/v1/agents'],
  ['ann', 'GET', '/v1/agents'],
  ['ann', 'GET', '//v1/agents'],
  ['ann', 'POST', '/v1/agents', {}],
  ['ann', 'DELETE', '/v1/agents'],
  ['ann', 'GET', '/v1/agents/'],
  ['ann', 'GET', '/nope'],
  ['ann', 'GET', '/v1/channels'],
  // Channels.
  ['ann', 'POST', '/v1/subscribe', { channel: 'dev' }],
  ['ann', 'POST', '/v1/subscribe', { channel: '#dev' }],
  ['ann', 'POST', '/v1/subscribe', { channel: '' }],
  ['ann', 'POST', '/v1/subscribe', { channel: 'two words' }],
  ['ann', 'POST', '/v1/subscribe', { channel: '#not-bob', agent: 'bob' }],
  ['ann', 'POST', '/v1/subscribe', '{'],
  ['wrong', 'POST', '/v1/subscribe', '{'],
  ['ann', 'GET', '/v1/channels'],
  ['ann', 'POST', '/v1/unsubscribe', { channel: 'two words' }],
  ['ann', 'POST', '/v1/unsubscribe', { channel: 'never' }],
  ['ann', 'GET', '/v1/agents'],
  // Sending.
  ['bob', 'POST', '/v1/send', { to: '#dev', body: 'hi' }],
  ['ann', 'POST', '/v1/send', { to: '@bob', body: 'hi' }],
  ['ann', 'POST', '/v1/send', { to: 'bob', body: '' }],
  ['ann', 'POST', '/v1/send', { to: '@bob', body: 'x', id: 'mine', from: 'eve', ts: 'now', extra: { a: 1 } }],
  ['ann', 'POST', '/v1/send', { to: '@bob', body: 'x', priority: 'loud', scope: 'a/b', refs: ['r'] }],
  ['ann', 'POST', '/v1/send', { to: '@bob', body: 'x', priority: null, scope: null, thread: null, refs: null }],
  ['ann', 'POST', '/v1/send', { to: '@bob', body: 'x', priority: '', scope: '', thread: '', refs: [] }],
  ['ann', 'POST', '/v1/send', { to: '@bob', body: '\u2028 😀 ü "\\ \u0000 \ud800' }],
  ['ann', 'POST', '/v1/send', { to: '', body: 'x' }],
  ['ann', 'POST', '/v1/send', { to: '@', body: 'x' }],
  ['ann', 'POST', '/v1/send', { to: '#', body: 'x' }],
  ['ann', 'POST', '/v1/send', { to: '@@bob', body: 'x' }],
  ['ann', 'POST', '/v1/send', { to: '@BOB', body: 'x' }],
  ['ann', 'POST', '/v1/send', { to: '@../../x', body: 'x' }],
  ['ann', 'POST', '/v1/send', { to: '#nobody-else', body: 'x' }],
  ['ann', 'POST', '/v1/send', '{"to":'],
  ['ann', 'PUT', '/v1/send', {}],
  // Reading. An id is the how-manyth of bob’s inbox.
  ['bob', 'GET', '/v1/inbox/bob'],
  ['bob', 'GET', '/v1/inbox/%62ob?x=1'],
  ['bob', 'GET', '/v1/inbox/ann'],
  ['bob', 'GET', '/v1/inbox/a%2Fb'],
  ['bob', 'GET', '/v1/inbox/%zz'],
  ['bob', 'GET', '/v1/inbox'],
  ['bob', 'POST', '/v1/inbox/bob', {}],
  ['room', 'GET', '/v1/inbox/bob'],
  ['bob', 'GET', '/v1/events/ann'],
  ['nobody', 'GET', '/v1/events/bob'],
  ['bob', 'POST', '/v1/take', { id: 'nope' }],
  ['bob', 'POST', '/v1/take', {}],
  ['bob', 'POST', '/v1/take', { id: 5 }],
  ['bob', 'POST', '/v1/take', { id: '../x' }],
  ['bob', 'POST', '/v1/take', '{'],
  ['ann', 'POST', '/v1/take', { id: 'ID0' }],
  ['bob', 'POST', '/v1/take', { id: 'ID0', agent: 'ann', keep: true }],
  ['bob', 'POST', '/v1/take', { id: 'ID0' }],
  ['bob', 'POST', '/v1/take', { id: 'ID1', keep: false }],
  ['bob', 'GET', '/v1/inbox/bob'],
  // Rooms. The secret and the name of the one that is made here stand in for themselves.
  ['nobody', 'GET', '/v1/rooms'],
  ['nobody', 'POST', '/v1/rooms'],
  ['room', 'POST', '/v1/register', { name: 'cat' }, IN_ROOM],
  ['SECRET', 'POST', '/v1/register', { name: 'cat' }, IN_ROOM],
  ['SECRET', 'POST', '/v1/register', { name: 'dan' }],
  ['cat', 'GET', '/v1/agents', undefined, IN_ROOM],
  ['cat', 'GET', '/v1/agents'],
  ['ann', 'GET', '/v1/agents', undefined, IN_ROOM],
  ['ann', 'GET', '/v1/agents', undefined, { 'x-backchannel-room': 'unknown' }],
  ['room', 'POST', '/v1/register', { name: 'x' }, { 'x-backchannel-room': 'unknown' }],
  ['room', 'POST', '/v1/register', { name: 'slash' }, { 'x-backchannel-room': 'a/b' }],
  ['room', 'POST', '/v1/register', { name: 'blanks' }, { 'x-backchannel-room': '  default ' }],
];

/** What the original answers, and what ours: it stores nothing that is no message, and takes nothing for a yes that is none. */
export const OTHERWISE: [ask: Ask, theirs: number, ours: number, says: string][] = [
  [['ann', 'POST', '/v1/send', { to: '@bob' }], 200, 400, '"body" must be a string'],
  [['ann', 'POST', '/v1/send', { to: '@bob', body: 5 }], 200, 400, '"body" must be a string'],
  [['ann', 'POST', '/v1/send', { to: '@bob', body: null }], 200, 400, '"body" must be a string'],
  [['ann', 'POST', '/v1/send', { to: '@bob', body: 'x', scope: 5 }], 200, 400, '"scope" must be a string'],
  [['ann', 'POST', '/v1/send', { to: '@bob', body: 'x', refs: [1] }], 200, 400, '"refs" must be an array of strings'],
  [['bob', 'POST', '/v1/take', { id: 'ID0', keep: 'no' }], 200, 400, '"keep" must be true or false'],
  [['bob', 'GET', '/v1/inbox/'], 403, 404, 'not found'],
  [['bob', 'GET', '/v1/inbox/bob/'], 403, 404, 'not found'],
  [
    ['room', 'POST', '/v1/register', { name: 'BOB' }],
    200,
    409,
    '"BOB" differs from "bob" only by case; pick another name',
  ],
  [
    ['room', 'POST', '/v1/register', { name: 'n'.repeat(129) }],
    200,
    400,
    `invalid agent name "${'n'.repeat(129)}" (use at most 128 characters)`,
  ],
];

/** Asks a relay, and tells what it answered: its status, and its body with everything masked that no two relays have in common. */
export class Asker {
  readonly #known = new Map([
    ['room', 'room'],
    ['wrong', 'wrong'],
  ]);
  readonly #ids: string[] = [];

  constructor(readonly url: string) {}

  async ask([who, method, path, body, headers = {}]: Ask): Promise<{ status: number; text: string }> {
    const token = this.#known.get(who);
    const answer = await fetch(`${this.url}${path}`, {
      method,
      headers: { ...(token && { authorization: `Bearer ${token}` }), ...this.#filled(headers) },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(this.#filled(body)) }),
    });
    const text = await answer.text();
    this.#learn(path, body, text);
    return { status: answer.status, text: this.#masked(text) };
  }

  /** Tokens, ids and the name of a room, as they are at this relay. */
  #filled<T>(value: T): T {
    const filled = JSON.stringify(value).replaceAll(/"(ID(\d)|ROOM)"/g, (_all, word: string, at?: string) =>
      JSON.stringify(at === undefined ? this.#known.get(word) : this.#ids[Number(at)]),
    );
    return JSON.parse(filled) as T;
  }

  #learn(path: string, body: unknown, text: string): void {
    const told: unknown = text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : null;
    if (Array.isArray(told) && path.startsWith('/v1/inbox/') && this.#ids.length === 0)
      this.#ids.push(...(told as { id: string }[]).map(({ id }) => id));
    const { token, roomId, roomToken } = (told ?? {}) as Record<string, string>;
    if (token) this.#known.set((body as { name: string }).name, token);
    if (roomId && roomToken) this.#known.set('ROOM', roomId).set('SECRET', roomToken);
  }

  #masked(text: string): string {
    return text
      .replaceAll(/[0-9a-f]{64}/g, 'TOKEN')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
      .replace(/"roomId":"[\w-]{8}","roomToken":"[\w-]{32}"/, 'a room and its secret');
  }
}
