import { describe, expect, it } from 'bun:test';
import { aHost, FakeWire } from '../../../test/support/host.ts';
import { anOwner, inChannel } from '../../../test/support/workspace.ts';
import { TestSurface } from '../../../test/support/surface.ts';
import { saysAgain } from '../attention/secrets.ts';
import { AgentName } from '../names.ts';
import { react } from '../obligations/react.ts';

const TOLD = 'We close the Lisbon office in March, so plan for it.';

describe('the test whether a text repeats a message', () => {
  it.each([
    ['the same text', TOLD, true],
    ['inside a longer text, with other case and spaces', `fyi: WE CLOSE  the "Lisbon" office in march – sad`, true],
    ['six words in a row', 'Lisbon office in March, so plan', true],
    ['five words in a row', 'the Lisbon office in March', false],
    ['the same in other words', 'an office in Portugal will be shut this spring', false],
  ])('decides: %s', (_what, text, found) => {
    expect(saysAgain(text, TOLD)).toBe(found);
  });

  it('finds a short message only as a whole, and ignores a message without content', () => {
    expect(saysAgain('he said the password is hunter2', 'the password is hunter2')).toBe(true);
    expect(saysAgain('please look again', 'please look')).toBe(false);
    expect(saysAgain('anything', '')).toBe(false);
  });
});

describe('a text from a private conversation of a surface', () => {
  it('may be repeated there, and elsewhere only after the person who was asked says yes [C2A-171]', async () => {
    const host = await aHost('lead', 'bob');
    const olga = await anOwner(host.workspace, 'olga');
    const surface = await new TestSurface(host).bind();
    const wire = new FakeWire();
    await host.bind(wire, 'lead');
    await inChannel(host.workspace, '#P1', 'lead');
    await inChannel(host.workspace, '#dev', 'lead', 'bob');
    await surface.post('U1', { id: 'P1', kind: 'channel', private: true }, `@lead ${TOLD}`);
    await surface.post('U2', { id: 'P1', kind: 'channel', private: true }, 'yes');
    await host.pass(5000);
    const say = (target: string, idempotencyKey: string) =>
      host.call(wire, 'chat.send_message', {
        target,
        text: TOLD,
        idempotencyKey,
        visibility: 'channel',
        directedness: 'ambient',
      });
    expect(await say('#P1', 'a')).toMatchObject({ first: true });
    await expect(say('#dev', 'b')).rejects.toThrow('@olga is asked');
    const heard = async () =>
      (await host.workspace.own.mailboxes.peek(AgentName.parse('bob'))).filter(({ message }) => message.body === TOLD)
        .length;
    const [request] = await host.workspace.own.mailboxes.peek(olga);
    const id = request?.message.id;
    if (!id) throw new Error('nobody was asked');
    // Neither the asking agent nor anybody else than the owner can say yes.
    await react(host.workspace, host.workspace.who('lead'), id, { signal: 'agree', recipient: olga });
    await react(host.workspace, host.workspace.who('bob'), id, { signal: 'agree' });
    expect(await heard()).toBe(0);
    await react(host.workspace, host.workspace.who('olga'), id, { signal: 'agree' });
    expect(await heard()).toBe(1);
    expect(await say('#dev', 'b')).toMatchObject({ first: false });
  });
});
