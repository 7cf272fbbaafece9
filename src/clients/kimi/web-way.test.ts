import { afterEach, describe, expect, it } from 'bun:test';
import { realpathSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import type { RecordedProof } from '../../core/ports/live-session.ts';
import { aParcel, NEVER, type OpenWay, wayContract } from '../../delivery/way.contract.ts';
import { KimiIndex } from './record.ts';
import { KimiServer, WEB_CODES } from './web.ts';
import { WebWay } from './web-way.ts';

const opened: ScriptedServer[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

wayContract('rpc to a kimi web', async () => new ScriptedServer());

describe('mail for a session on kimi web', () => {
  it('joins the turn of a busy session, unless it needs a turn of its own', async () => {
    const server = aServer();
    server.isBusy = true;
    const [one, two] = [aParcel('one'), { ...aParcel('two'), ownTurn: true }];
    await server.way.attempt([one, two], NEVER);
    expect(server.steered).toEqual([`parley_${one.id}`]);
  });

  it.each([
    ['asks its user something', { pending_interaction: 'approval' }],
    ['is not loaded', { agent_config: { model: '' } }],
  ])('is left where the session %s', async (_case, more) => {
    const server = aServer();
    server.more = more;
    expect(await server.way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'left', retry: true });
    expect(server.given.size).toBe(0);
  });

  it('is not given to a server if an earlier server put it into the conversation', async () => {
    const server = aServer();
    const [first, second] = [
      { ...aParcel('one'), text: 'greeting\none' },
      { ...aParcel('two'), text: 'two' },
    ];
    server.recorded.add(first.id);
    expect(await server.way.attempt([first, second], NEVER)).toMatchObject({ step: 'shown' });
    expect([...server.given.values()]).toEqual(['greeting\ntwo']);
  });

  it('stays claimed if a hook of Kimi blocks it, because the conversation has it', async () => {
    const server = aServer();
    server.status = 'blocked';
    expect(await server.way.attempt([aParcel()], NEVER)).toMatchObject({ outcome: 'offered' });
  });

  it.each([
    ['it is busy', 40901, { outcome: 'left', retry: true }],
    ['its token has changed', 40112, { outcome: 'left', retry: true }],
    ['it takes no such text', 40001, { outcome: 'left', retry: false }],
    ['it failed inside, and may have it', 50001, { outcome: 'offered' }],
    ['it says nothing that is understood', 'later', { outcome: 'offered' }],
  ])('is refused because %s', async (_why, code, said) => {
    const server = aServer();
    server.refusal = code;
    expect(await server.way.attempt([aParcel()], NEVER)).toMatchObject(said);
  });

  it('goes in once, however often the way tries', async () => {
    const server = aServer();
    const parcel = aParcel();
    for (let n = 0; n < 3; n += 1) expect(await server.way.attempt([parcel], NEVER)).toMatchObject({ step: 'shown' });
    expect([...server.given.keys()]).toEqual([`parley_${parcel.id}`]);
  });
});

function aServer(): ScriptedServer {
  const server = new ScriptedServer();
  opened.push(server);
  return server;
}

/** A server with one session, whose model has all mail that it was given. */
class ScriptedServer implements OpenWay {
  readonly given = new Map<string, string>();
  readonly steered: string[] = [];
  /** Messages that an earlier server put into the conversation. */
  readonly recorded = new Set<string>();
  isBusy = false;
  status: string | null = null;
  /** The code with which it refuses each prompt. */
  refusal: number | string | null = null;
  more: object = {};
  readonly way: WebWay;
  readonly #home = realpathSync(temporaryHome());
  #listening = this.#listen(0);
  /** A server that has stopped has no start time. */
  readonly #port = this.#listening.port ?? 0;

  constructor() {
    writeFileSync(`${this.#home}/server.token`, 'secret');
    const server = new KimiServer(this.#home, process.pid, this.#port);
    const proof = async (id: string): Promise<RecordedProof> =>
      this.given.has(`parley_${id}`) || this.recorded.has(id)
        ? { step: 'shown', evidence: { record: 'wire.jsonl' } }
        : { step: 'none', isOver: false };
    const has = (id: string): boolean => this.recorded.has(id);
    this.way = new WebWay(server, 's1', new KimiIndex(this.#home), { has, proof });
  }

  async seen(): Promise<string> {
    return [...this.given.values()].join('\n');
  }

  async typed(): Promise<string> {
    return '';
  }

  async leave(): Promise<void> {
    await this.#listening.stop(true);
  }

  async comeBack(): Promise<void> {
    this.#listening = this.#listen(this.#port);
  }

  async close(): Promise<void> {
    await this.#listening.stop(true);
  }

  #listen(port: number): Bun.Server<undefined> {
    return Bun.serve({ hostname: '127.0.0.1', port, fetch: (request) => this.#answer(request) });
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const [, steered] = /prompts\/(.+):steer$/.exec(pathname) ?? [];
    if (steered !== undefined) this.steered.push(steered);
    if (request.method === 'GET' && pathname.endsWith('/prompts')) {
      const queued = [...this.given.keys()].map((prompt_id) => ({ prompt_id }));
      return Response.json({ code: 0, data: { active: null, queued } });
    }
    if (request.method !== 'POST' || steered !== undefined) return Response.json({ code: 0, data: this.#session() });
    const { prompt_id: id, content } = (await request.json()) as { prompt_id: string; content: { text: string }[] };
    if (this.refusal !== null) return Response.json({ code: this.refusal, msg: 'no' });
    if (this.given.has(id)) return Response.json({ code: WEB_CODES.promptInUse, msg: 'in use' });
    this.given.set(id, content.map(({ text }) => text).join(''));
    return Response.json({
      code: 0,
      data: { prompt_id: id, status: this.status ?? (this.isBusy ? 'queued' : 'running') },
    });
  }

  #session(): object {
    const state = { busy: this.isBusy, pending_interaction: 'none', agent_config: { model: 'one' } };
    return { id: 's1', metadata: { cwd: '/nowhere' }, ...state, ...this.more };
  }
}
