import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire, TestHost } from '../../../test/support/host.ts';
import { inChannel } from '../../../test/support/workspace.ts';
import { TestSurface } from '../../../test/support/surface.ts';

async function aSurface() {
  const host = await aHost('lead');
  const wire = new FakeWire();
  await host.bind(wire, 'lead');
  const surface = await new TestSurface(host).bind();
  return { host, wire, surface };
}

describe('what somebody writes in pieces', () => {
  it('is one turn, in order, and the earlier pieces end as superseded by the last [C2A-63] [C2A-162]', async () => {
    const { host, wire, surface } = await aSurface();
    const ids: string[] = [];
    for (const text of ['when someone types', 'in', 'pieces', 'the agent should wait']) {
      ids.push((await surface.dm('U1', 'lead', text)).eventId);
      await host.pass(1000);
    }
    await host.pass(5000);
    expect(wire.texts).toEqual(['when someone types\nin\npieces\nthe agent should wait']);
    expect(wire.delivered).toMatchObject([{ eventId: ids[3], merged: ids }]);
    expect(await Promise.all(ids.map((id) => host.ended('lead', id)))).toEqual([
      'superseded',
      'superseded',
      'superseded',
      null,
    ]);
  });

  it('is shown between two and five seconds after the last piece, not before [C2A-65]', async () => {
    const { host, wire, surface } = await aSurface();
    await surface.dm('U1', 'lead', 'could you');
    await host.pass(1900);
    expect(wire.delivered).toEqual([]);
    await surface.dm('U1', 'lead', 'have a look');
    await host.pass(1900);
    expect(wire.delivered).toEqual([]);
    await host.pass(3100);
    expect(wire.texts).toEqual(['could you\nhave a look']);
  });

  it('is waited for as long as the settings say [C2A-65]', async () => {
    const host = new TestHost((await aHost('lead')).workspace, { composeMs: 5000 });
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    const surface = await new TestSurface(host).bind();
    await surface.dm('U1', 'lead', 'could you');
    await host.pass(4900);
    expect(wire.delivered).toEqual([]);
    await surface.dm('U1', 'lead', 'here it is:');
    await host.pass(4900);
    expect(wire.delivered).toEqual([]);
    await host.pass(200);
    expect(wire.texts).toEqual(['could you\nhere it is:']);
  });

  it('is shown within thirty seconds of the first piece, however long it goes on [C2A-66]', async () => {
    const { host, wire, surface } = await aSurface();
    const start = host.workspace.now();
    for (let n = 0; n < 18; n += 1) {
      await surface.dm('U1', 'lead', `piece ${n}`);
      await host.pass(1900);
      if (wire.delivered.length > 0) break;
    }
    expect(wire.delivered).toHaveLength(1);
    expect(host.workspace.now() - start).toBeLessThan(31_000);
    expect(wire.texts[0]?.split('\n').length).toBeGreaterThan(10);
  });

  it('waits while its author types, and is shown when that stops [C2A-64]', async () => {
    const { host, wire, surface } = await aSurface();
    await surface.dm('U1', 'lead', 'so');
    await surface.typing('U1', 'D-U1', true);
    await host.pass(20_000);
    expect(wire.delivered).toEqual([]);
    await surface.typing('U1', 'D-U1', false);
    await host.pass(1);
    expect(wire.texts).toEqual(['so']);
  });

  it('does not wait for what others type, or its author elsewhere [C2A-64]', async () => {
    const { host, wire, surface } = await aSurface();
    await surface.post('U1', { id: 'C1', kind: 'channel' }, 'lunch');
    await surface.dm('U1', 'lead', 'so');
    await surface.typing('U2', 'D-U1', true);
    await surface.typing('U1', 'C1', true);
    await host.pass(5000);
    expect(wire.texts).toEqual(['so']);
  });

  it('is never mixed with what another writes, or with another conversation [C2A-63] [C2A-67b]', async () => {
    const { host, wire, surface } = await aSurface();
    await inChannel(host.workspace, '#C1', 'lead');
    await surface.post('U1', { id: 'C1', kind: 'channel' }, '@lead one');
    await surface.post('U2', { id: 'C1', kind: 'channel' }, '@lead two');
    await surface.post('U1', { id: 'C1', kind: 'channel' }, '@lead three');
    await surface.dm('U1', 'lead', 'four');
    await surface.post('U1', { id: 'C1', kind: 'thread', threadId: 'm2' }, '@lead five');
    await host.pass(5000);
    expect(wire.texts.toSorted()).toEqual(['@lead five', '@lead one\n@lead three', '@lead two', 'four']);
    const inC1 = wire.delivered.filter(({ conversation }) => conversation.id === '#C1');
    expect(inC1.map(({ timing }) => timing.sequence)).toEqual(
      inC1.map(({ timing }) => timing.sequence).toSorted((a, b) => a - b),
    );
  });

  it('is joined for an agent only if it arrives at once: otherwise each text is an event of its own', async () => {
    const host = await aHost('lead', 'bob');
    const wire = new FakeWire();
    for (const [body, after] of [
      ['see src/a.ts:1', 100],
      ['and src/b.ts:2', 5000],
      ['look at src/c.ts:3', 0],
    ] as const) {
      await host.send('bob', '@lead', body);
      await host.pass(after);
    }
    await host.bind(wire, 'lead');
    await host.pass(1000);
    expect(wire.texts).toEqual(['see src/a.ts:1\nand src/b.ts:2', 'look at src/c.ts:3']);
  });

  it('is shown as it was edited, if that was before it was shown [C2A-67] [C2A-159]', async () => {
    const { host, wire, surface } = await aSurface();
    await surface.dm('U1', 'lead', 'delete the old branch', { messageId: 'a' });
    await surface.dm('U1', 'lead', 'and tell me', { messageId: 'b' });
    await surface.edit('a', 'keep the old branch');
    await host.pass(5000);
    expect(wire.texts).toEqual(['keep the old branch\nand tell me']);
    expect(wire.prompts.join()).not.toContain('delete');
  });

  it('is never shown if it is deleted before, and ends as superseded [C2A-156] [C2A-161]', async () => {
    const { host, wire, surface } = await aSurface();
    const { eventId } = await surface.dm('U1', 'lead', 'never mind', { messageId: 'a' });
    await surface.delete('a');
    await host.pass(60_000);
    expect(wire.delivered).toEqual([]);
    expect(await host.ended('lead', eventId)).toBe('superseded');
  });

  it('is called off if it is deleted or edited after it was shown and before an answer [C2A-156]', async () => {
    const { host, wire, surface } = await aSurface();
    const first = await surface.dm('U1', 'lead', 'drop the table', { messageId: 'a' });
    await host.pass(5000);
    expect(wire.ids).toEqual([first.eventId]);
    const edited = await surface.edit('a', 'do not drop the table');
    await host.pass(5000);
    expect(wire.cancelled).toMatchObject([{ eventId: first.eventId }]);
    expect(wire.ids).toEqual([first.eventId, edited.eventId]);
    expect(await host.ended('lead', first.eventId)).toBe('superseded');
    await surface.delete('a');
    expect(wire.cancelled.at(-1)).toMatchObject({ eventId: edited.eventId });
    expect(await host.ended('lead', edited.eventId)).toBe('superseded');
  });
});
