import { describe, expect, it } from 'bun:test';
import { readdirSync, renameSync, statSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { AgentName, SendKey } from '../../core/names.ts';
import type { OutgoingMessage } from '../../core/ports/remote.ts';
import { Outbox } from './outbox.ts';
import { wireKey } from './post.ts';

function aLetter(key: string, fields: Partial<OutgoingMessage> = {}): OutgoingMessage {
  const content = { to: '@bob', body: key };
  return {
    v: 1,
    key: SendKey.parse(key),
    from: AgentName.parse('ann'),
    written: `2026-01-01T00:00:0${key.length}.000Z`,
    named: true,
    content,
    ...fields,
  };
}

describe('the outbox', () => {
  it('keeps messages in the order in which they were written, readable by their owner only', () => {
    const root = temporaryHome();
    const outbox = new Outbox(root);
    expect(outbox.isEmpty()).toBe(true);
    for (const key of ['333', '1', '22']) outbox.add(aLetter(key));
    expect(outbox.list().map(({ outgoing }) => outgoing.key)).toEqual(
      ['1', '22', '333'].map((key) => SendKey.parse(key)),
    );
    for (const name of readdirSync(`${root}/outbox`))
      expect(statSync(`${root}/outbox/${name}`).mode & 0o777).toBe(0o600);
  });

  it('has one message per key, and refuses another text under it', () => {
    const outbox = new Outbox(temporaryHome());
    outbox.add(aLetter('k'));
    expect(outbox.add(aLetter('k')).state).toBe('queued');
    expect(outbox.list()).toHaveLength(1);
    expect(() => outbox.add(aLetter('k', { content: { to: '@bob', body: 'another' } }))).toThrow(
      /names another message/,
    );
  });

  it('takes a message that is due in the same time for the same, and another deadline for another', () => {
    const outbox = new Outbox(temporaryHome());
    const due = (written: string, deadline: string): OutgoingMessage =>
      aLetter('k', { written, content: { to: '@bob', body: 'k', deadline } });
    outbox.add(due('2026-01-01T10:00:00.000Z', '2026-01-01T10:30:00.000Z'));
    expect(outbox.add(due('2026-01-01T10:05:00.000Z', '2026-01-01T10:35:00.100Z')).state).toBe('queued');
    expect(outbox.list()).toHaveLength(1);
    expect(() => outbox.add(due('2026-01-01T10:05:00.000Z', '2026-01-01T11:00:00.000Z'))).toThrow(/another message/);
    expect(() => outbox.add(aLetter('k'))).toThrow(/another message/);
  });

  it('gives a message to one of several senders', () => {
    const root = temporaryHome();
    const filed = new Outbox(root).add(aLetter('k'));
    const won = [1, 2, 3].map(() => new Outbox(root).begin(filed)).filter(Boolean);
    expect(won).toHaveLength(1);
    expect(new Outbox(root).list().map(({ state }) => state)).toEqual(['sending']);
  });

  it('does not know what became of a message whose sender is dead', () => {
    const root = temporaryHome();
    const outbox = new Outbox(root);
    const held = outbox.begin(outbox.add(aLetter('k')));
    const dead = held?.file.replace(/sending\.[^.]+/, 'sending.another-boot') ?? '';
    renameSync(`${root}/outbox/${held?.file}`, `${root}/outbox/${dead}`);
    const [left] = outbox.list();
    expect(left?.state).toBe('unknown');
    if (left) outbox.put(left, 'queued', 'again');
    expect(outbox.list()).toMatchObject([{ state: 'queued', outgoing: { why: 'again' } }]);
  });
});

describe('a key in a header', () => {
  it.each(['a', 'deploy-notice-17', 'two words'])('%p stays as it is', (key) => expect(wireKey(key)).toBe(key));
  it.each([' a', 'a ', 'ü', '🙂'])('%p is replaced by its fingerprint, always the same', (key) => {
    expect(wireKey(key)).toMatch(/^sha256-[0-9a-f]{64}$/);
    expect(wireKey(key)).toBe(wireKey(key));
  });
});
