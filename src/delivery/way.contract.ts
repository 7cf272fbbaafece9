import { afterEach, beforeEach, describe, expect, it } from 'bun:test';
import { within } from '../../test/support/within.ts';
import { MessageId } from '../core/names.ts';
import type { Attempt, Parcel, Way } from '../core/ports/way-in.ts';

/** One way in, with the scripted agent at its other end. */
export interface OpenWay {
  way: Way;
  /** Everything that was put before the agent's model so far, as one text. */
  seen(): Promise<string>;
  /** What stands in the agent's composer and was not sent; empty where a way has no composer. */
  typed(): Promise<string>;
  /** The agent goes away: nobody can be reached by this way. */
  leave(): Promise<void>;
  /** The agent is there again, with what it has seen. */
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

/** Where ways differ: nothing, or why a promise does not apply. */
export interface WayTraits {
  /** Why this way can never prove that the client took something. */
  proves?: string;
  /** Why nobody can be absent. */
  absence?: string;
}

const DEADLINE = 20_000;
/** What breaks naive ways of handing over a text. Each must arrive as it is. */
const AWKWARD = [
  '-n --help',
  'ends in $word',
  'ends in @word',
  '$(touch never) `touch never` "quoted" \'single\' \\back\\slash',
  'Grüße, 你好, 👩‍💻',
  'two\n\nparagraphs\n\twith a tab',
  '#{pane_id} %1 ; kill-server',
];

export const NEVER = new AbortController().signal;

/** A parcel whose text can be counted: no other text has it. */
export function aParcel(text = 'hello'): Parcel {
  const id = MessageId.parse(crypto.randomUUID());
  return { id, text: `[${id}] ${text} [/${id}]` };
}

/** The promises of port Way, for every way. */
export function wayContract(title: string, open: () => Promise<OpenWay>, traits: WayTraits = {}): void {
  describe(`the way ${title}`, () => {
    let at: OpenWay;
    beforeEach(async () => {
      at = await open();
    });
    afterEach(() => at.close());

    it('puts each body before the agent once, in order', async () => {
      const parcels = [aParcel('one'), aParcel('two'), aParcel('three')];
      const said = await at.way.attempt(parcels, NEVER);
      expect(said.outcome).not.toBe('left');
      await shows(at, parcels);
      const seen = await at.seen();
      expect(parcels.map((parcel) => count(seen, parcel.text))).toEqual([1, 1, 1]);
      const places = parcels.map((parcel) => seen.indexOf(parcel.text));
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      expect(await at.typed()).toBe('');
    });

    it.each(AWKWARD)('hands over %j as it is', async (text) => {
      const parcel = aParcel(text);
      const said = await at.way.attempt([{ ...parcel, text: parcel.text + text }], NEVER);
      expect(said.outcome).not.toBe('left');
      await shows(at, [{ ...parcel, text: parcel.text + text }]);
    });

    if (traits.proves === undefined) {
      it("says `taken` with the client's own word for it", async () => {
        const said = await at.way.attempt([aParcel()], NEVER);
        expect(said).toMatchObject({ outcome: 'taken', evidence: { way: at.way.name } });
      });
    } else {
      it(`never says \`taken\`: ${traits.proves}`, async () => {
        const said = await at.way.attempt([aParcel()], NEVER);
        expect(said).toMatchObject({ outcome: 'offered', evidence: { way: at.way.name } });
      });
    }

    it('leaves nothing where nothing is given', async () => {
      expect(await at.way.attempt([], NEVER)).toMatchObject({ outcome: 'left' });
      expect(await at.typed()).toBe('');
    });

    it.skipIf(traits.absence !== undefined)(
      `leaves the message where it was while nobody is there, and hands it over once later${traits.absence ? ` (skipped: ${traits.absence})` : ''}`,
      async () => {
        const parcel = aParcel();
        await at.leave();
        const left = await at.way.attempt([parcel], NEVER);
        expect(left.outcome).toBe('left');
        expect((left as Extract<Attempt, { outcome: 'left' }>).because).not.toBe('');
        await at.comeBack();
        expect(count(await at.seen(), parcel.id)).toBe(0);
        await until(async () => (await at.way.attempt([parcel], NEVER)).outcome !== 'left');
        await shows(at, [parcel]);
        expect(count(await at.seen(), parcel.text)).toBe(1);
      },
    );

    it('hands over nothing after a stop', async () => {
      const parcel = aParcel();
      expect(await at.way.attempt([parcel], AbortSignal.abort())).toMatchObject({ outcome: 'left', retry: true });
      expect(await at.typed()).toBe('');
      expect(count(await at.seen(), parcel.id)).toBe(0);
    });

    it('hands over all or nothing, whenever a stop comes', async () => {
      for (const ms of [0, 1, 3, 10, 30]) {
        const parcel = aParcel(`stopped after ${ms} ms`);
        const stop = new AbortController();
        const timer = setTimeout(() => stop.abort(), ms);
        const said = await at.way.attempt([parcel], stop.signal);
        clearTimeout(timer);
        if (said.outcome === 'left') expect(count(await at.seen(), parcel.id)).toBe(0);
        else await shows(at, [parcel]);
        await until(async () => (await at.typed()) === '');
      }
    });
  });
}

/** Waits until the agent has seen them all. */
async function shows(at: OpenWay, parcels: readonly Parcel[]): Promise<void> {
  await until(async () => {
    const seen = await at.seen();
    return parcels.every((parcel) => seen.includes(parcel.text));
  });
}

const until = (isSo: () => Promise<boolean>): Promise<void> => within(DEADLINE, isSo);

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}
