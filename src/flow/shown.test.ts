import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../test/support/desk.ts';
import { aMemoryDesk, inChannel } from '../../test/support/memory-desk.ts';
import type { MemoryDesk } from '../../test/support/memory-desk.ts';
import { AgentName } from '../protocol/names.ts';
import { send } from './send.ts';
import type { Sent } from './send.ts';
import { withdraw } from './settle.ts';
import { shownSoon } from './shown.ts';

const bob = AgentName.parse('bob');
const AT_ONCE = { takenMs: 0, shownMs: 0 };

/** Bob and carol, and will at a chat. */
async function aTown(): Promise<MemoryDesk> {
  const desk = await aMemoryDesk('bob', 'carol');
  for (const name of ['slack._surface', 'slack.will'])
    await desk.own.directory.register(AgentName.parse(name), 'human');
  return desk;
}

/** What a surface does with a copy in the end. */
async function ended({ own }: MemoryDesk, { message }: Sent, box: string, disposition: 'acknowledged' | 'failed') {
  const mailbox = AgentName.parse(box);
  const { owner } = await own.spool.claim(mailbox, [message.id], { ms: 1000, bearer: 'surface-slack' });
  await own.spool.settle({ mailbox, owner }, [message.id], { disposition, by: { reason: 'no (403)' } });
}

describe('what is known of a message at a surface', () => {
  it('is nothing where it goes to none', async () => {
    const desk = await aTown();
    expect(await shownSoon(await send(desk, bob, aDraft({ to: '@carol' })), AT_ONCE)).toBeNull();
    await inChannel(desk, '#dev', 'bob', 'carol');
    expect(await shownSoon(await send(desk, bob, aDraft({ to: '#dev' })), AT_ONCE)).toBeNull();
  });

  it('is that it waits, was shown, or was taken back before', async () => {
    const desk = await aTown();
    const sent = await send(desk, bob, aDraft({ to: '@slack.will' }));
    expect(await shownSoon(sent, AT_ONCE)).toEqual({ state: 'waiting', refused: [] });
    await ended(desk, sent, 'slack.will', 'acknowledged');
    expect(await shownSoon(sent, AT_ONCE)).toEqual({ state: 'shown', refused: [] });
    const other = await send(desk, bob, aDraft({ to: '@slack.will', body: 'never mind' }));
    await withdraw(bob, desk.own, other.message.id);
    expect(await shownSoon(other, AT_ONCE)).toEqual({ state: 'withdrawn', refused: [] });
  });

  it('is a refusal where nobody else has it, and is told beside the rest where others have', async () => {
    const desk = await aTown();
    const dm = await send(desk, bob, aDraft({ to: '@slack.will' }));
    await ended(desk, dm, 'slack.will', 'failed');
    await expect(shownSoon(dm, AT_ONCE)).rejects.toThrow('nobody there has seen it: no (403)');
    await inChannel(desk, '#dev', 'bob', 'carol', 'slack._surface');
    const post = await send(desk, bob, aDraft({ to: '#dev' }));
    await ended(desk, post, 'slack._surface', 'failed');
    expect(await shownSoon(post, AT_ONCE)).toMatchObject({ state: 'refused', refused: [{ box: 'slack._surface' }] });
  });
});
