import { describe, expect, it } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { temporaryHome } from '../../../test/support/home.ts';
import { alice, QUIET } from '../../../test/support/mail.ts';
import { aWorkspace } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { BUSY, HANDED, NEVER, ScriptedWay, TAKEN } from '../../../test/support/ways.ts';
import type { Attempt } from '../../core/ports/way-in.ts';
import { send } from '../../core/mail/send.ts';
import type { MessageId } from '../../core/names.ts';
import { WireLoop, WireQueue, wireSpoolPath } from './wire-loop.ts';
import type { WireNews } from './wire-loop.ts';

const signal = new AbortController().signal;

class Bridge {
  readonly root = `${temporaryHome()}/broker`;
  readonly spool = new WireQueue(wireSpoolPath(this.root, 's1'));
  readonly news: WireNews[] = [];
  /** What stood in the spool at the moment at which kimi got its prompt. */
  readonly noted: string[][] = [];
  readonly way: ScriptedWay;
  readonly loop: WireLoop;
  quietTime = false;

  constructor(
    readonly workspace: TestWorkspace,
    said: Attempt[],
  ) {
    this.way = new ScriptedWay('wire', said, async () => {
      this.noted.push(this.spool.read().map(({ content }) => content));
    });
    this.loop = new WireLoop({
      way: this.way,
      spool: this.spool,
      isDnd: async () => this.quietTime,
      now: workspace.now,
      onNews: (news) => this.news.push(news),
    });
  }

  static async open(...said: Attempt[]): Promise<Bridge> {
    return new Bridge(await aWorkspace('alice', 'bob'), said);
  }

  async letter(body: string): Promise<MessageId> {
    this.workspace.pass(1000);
    return (await send(this.workspace, alice, aDraft({ body }))).message.id;
  }

  /** A look after as long as the last one asked for. */
  async look(): Promise<number | null> {
    const againMs = await this.lookNow();
    this.workspace.pass(againMs ?? 0);
    return againMs;
  }

  async lookNow(): Promise<number | null> {
    return this.loop.look(this.workspace.who('bob'), signal);
  }

  async waiting(): Promise<number> {
    return (await this.workspace.own.mailboxes.ids(this.workspace.who('bob').name)).length;
  }
}

describe('the bridge to kimi', () => {
  it('notes what goes out in its spool first, hands it over in envelopes, and clears the spool after it [C2C-36]', async () => {
    const bridge = await Bridge.open(TAKEN);
    const id = await bridge.letter('the build is red');
    expect(await bridge.look()).toBe(0);
    expect(bridge.noted).toEqual([['the build is red']]);
    expect(bridge.way.got[0]?.[0]?.text).toContain(`message_id="${id}">\nthe build is red\n</c2c>`);
    expect(readFileSync(bridge.spool.path, 'utf8')).toBe('[]\n');
    expect(await bridge.waiting()).toBe(0);
  });

  it('starts nothing while nothing waits, and nothing for what is quiet [C2C-36]', async () => {
    const bridge = await Bridge.open(TAKEN);
    expect(await bridge.look()).toBeNull();
    const id = await bridge.letter('by the way');
    await bridge.workspace.own.journal.reconsider(bridge.workspace.who('bob').name, id, QUIET);
    await bridge.workspace.own.mailboxes.lower(bridge.workspace.who('bob').name, id);
    expect(await bridge.look()).toBeNull();
    expect(bridge.noted).toEqual([]);
    expect(existsSync(bridge.spool.path)).toBe(false);
  });

  it('leaves a session alone that wants no disturbance', async () => {
    const bridge = await Bridge.open(TAKEN);
    await bridge.letter('hello');
    bridge.quietTime = true;
    expect(await bridge.look()).toBeNull();
    bridge.quietTime = false;
    expect(await bridge.look()).toBe(0);
  });

  it('tries again after pauses that grow, and delivers once [C2C-36]', async () => {
    const bridge = await Bridge.open(BUSY, BUSY, TAKEN);
    await bridge.letter('hello');
    expect([await bridge.look(), await bridge.look(), await bridge.look()]).toEqual([1000, 2000, 0]);
    expect(await bridge.look()).toBeNull();
    expect(bridge.way.got).toHaveLength(1);
    expect(bridge.news.map(({ event }) => event)).toEqual(['left', 'left', 'delivered']);
  });

  it('is not hurried by what comes meanwhile', async () => {
    const bridge = await Bridge.open(BUSY, TAKEN);
    await bridge.letter('hello');
    expect(await bridge.lookNow()).toBe(1000);
    bridge.workspace.pass(400);
    expect(await bridge.lookNow()).toBe(600);
    expect(bridge.noted).toHaveLength(1);
  });

  it('brings what a dying kimi may have seen again under the same id, marked, and says that it does not know', async () => {
    const bridge = await Bridge.open(HANDED, TAKEN);
    const id = await bridge.letter('hello');
    expect(await bridge.look()).toBe(1000);
    expect(bridge.news).toMatchObject([{ event: 'unknown' }]);
    await bridge.look();
    const texts = bridge.way.got.map(([one]) => one?.text ?? '');
    expect(texts.map((text) => text.includes('redelivered="true"'))).toEqual([false, true]);
    expect(texts.every((text) => text.includes(id))).toBe(true);
  });

  it('gives up on what kimi dies of, leaves it waiting, and goes on with the rest', async () => {
    const bridge = await Bridge.open(HANDED);
    await bridge.letter('poison');
    for (let n = 1; n <= 7; n += 1) await bridge.look();
    expect(bridge.way.got).toHaveLength(5);
    expect(bridge.news.filter(({ event }) => event === 'given_up')).toHaveLength(1);
    expect(await bridge.waiting()).toBe(1);
    await bridge.letter('good news');
    await bridge.look();
    expect(bridge.way.got.at(-1)?.map(({ text }) => text.includes('good news'))).toEqual([true]);
  });

  it('does not hurry where it will never go', async () => {
    const bridge = await Bridge.open(NEVER);
    await bridge.letter('hello');
    expect(await bridge.look()).toBe(300_000);
  });

  it('delivers what another bridge left in the spool, and what stands there twice only once [C2C-36]', async () => {
    const bridge = await Bridge.open(TAKEN);
    const id = await bridge.letter('from the inbox');
    mkdirSync(bridge.spool.path.slice(0, bridge.spool.path.lastIndexOf('/')), { recursive: true });
    const left = [
      { from_alias: 'carol', to_alias: 'bob', content: 'from the spool' },
      { from_alias: 'alice', to_alias: 'bob', content: 'from the inbox', message_id: id },
      'no entry',
    ];
    writeFileSync(bridge.spool.path, JSON.stringify(left));
    await bridge.look();
    const bodies = bridge.way.got.map((parcels) => parcels.map(({ text }) => text.split('\n')[1]));
    expect(bodies).toEqual([['from the spool'], ['from the inbox']]);
    await bridge.look();
    expect(bridge.way.got).toHaveLength(2);
  });

  it('carries much mail in several prompts, in order', async () => {
    const bridge = await Bridge.open(TAKEN);
    for (let n = 1; n <= 120; n += 1) await bridge.letter(`letter ${n}`);
    while ((await bridge.look()) !== null);
    expect(bridge.way.got.map((parcels) => parcels.length)).toEqual([50, 50, 20]);
    const bodies = bridge.way.got.flat().map(({ text }) => text.split('\n')[1]);
    expect(bodies).toEqual(Array.from({ length: 120 }, (_, at) => `letter ${at + 1}`));
  });
});
