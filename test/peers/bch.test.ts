// Two programs, two relays, one script. What the original prints at its own relay is what all others are compared with.
import { afterEach, describe, expect } from 'bun:test';
import { everything, ROOM } from './support/everything.ts';
import { endAll, PeerMachine, peers } from './support/peer.ts';
import type { Brand } from './support/peer.ts';
import { Transcript } from './support/transcript.ts';

const { story, why } = peers('original');
afterEach(endAll);

/** What Parley adds to a message, in indented JSON. */
const OUR_KEY = /,\n( *)"parley": (\{[^]*?\n\1\})/g;

describe(`the original bch at our relay${why}`, () => {
  story('prints every text that it prints at its own, and ends with the same codes [BC-12, BC-B5.22]', async () => {
    const [theirs, ours] = await Promise.all([heard('original', 'original'), heard('original', 'ours')]);
    expect(ours.replaceAll(OUR_KEY, '')).toBe(theirs);
    // In JSON it shows what it does not know: here, that the message answers another.
    const added = [...ours.matchAll(OUR_KEY)].map(([, , json = '']) => JSON.parse(json) as unknown);
    expect(added).toEqual([{ v: 1, lineage: { root: 't', hop: 1, visited: [], stale: 0 } }]);
  });
});

describe(`our bch at a relay of the original${why}`, () => {
  story('prints every text that the original prints there, and ends with the same codes [BC-B7.18]', async () => {
    const [theirs, ours] = await Promise.all([heard('original', 'original'), heard('ours', 'original')]);
    expect(common(ours)).toBe(common(theirs));
    expect(ours).not.toBe(theirs);
  });

  story('shows what would move a cursor, where the original lets it', async () => {
    const machine = new PeerMachine();
    const { url } = await new PeerMachine().relay('original', ['--token', ROOM]);
    await machine.told('original', ['init', 'ann', '--url', url, '--token', ROOM]);
    await machine.told('original', ['send', '@ann', 'red \u001b[31m']);
    expect(await machine.told('original', ['inbox'])).toContain('red \u001b[31m\n');
    expect(await machine.told('ours', ['inbox'])).toContain('red ␛[31m\n');
    expect(JSON.parse(await machine.told('ours', ['drain', '--json']))).toMatchObject([{ body: 'red \u001b[31m' }]);
  });
});

async function heard(client: Brand, relay: Brand): Promise<string> {
  const { url } = await new PeerMachine().relay(relay, ['--token', ROOM]);
  const at = new Transcript(client, url);
  await everything(at);
  return at.text;
}

/** Around the line that is handed on, each program says what it likes; and how a command is used, each says in its own words. */
function common(text: string): string {
  return text
    .replaceAll(/(created\.)\n[^]*?\n( {2}bch join INVITE --as their-name)\n[^]*?\n= 0/g, '$1\n$2\n= 0')
    .replaceAll(/^error: usage: .*$/gm, 'error: usage');
}
