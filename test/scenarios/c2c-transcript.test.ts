import { describe, expect, it } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Brokerage } from '../support/c2c.ts';

const SESSION = '8dfdf2f7-0000-4000-8000-000000000001';

/** Bob's Claude session, which ended and left its transcript. */
async function anEndedSession(): Promise<{ broker: Brokerage; lines: () => Record<string, unknown>[] }> {
  const broker = await new Brokerage().registered(['alice']);
  await broker.said(['register', 'bob'], { session: SESSION });
  const folder = `${broker.program.home}/.claude/projects/-work-api`;
  mkdirSync(folder, { recursive: true });
  const entry = { parentUuid: null, isSidechain: false, type: 'user', uuid: 'u-1', sessionId: SESSION, cwd: '/x' };
  writeFileSync(`${folder}/${SESSION}.jsonl`, `${JSON.stringify(entry)}\n`);
  const text = (): string => readFileSync(`${folder}/${SESSION}.jsonl`, 'utf8').trim();
  return {
    broker,
    lines: () =>
      text()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

const into = ['deliver-inbox', '--transcript', '--session-id', SESSION];

describe('mail in the transcript of a session that does not run', () => {
  it('is written once, on request, and stays in the inbox: nothing proves that it was seen [C2C-33]', async () => {
    const { broker, lines } = await anEndedSession();
    const sent = await broker.json<{ message_id: string }>(['send', 'bob', 'while you were away'], {
      session: 's-alice',
    });
    expect(await broker.said(into)).toStartWith('1 in the transcript; seen when the session is resumed');
    expect(await broker.said(into)).toBe('nothing new waits\n');
    expect(lines()).toHaveLength(2);
    expect(lines()[1]).toMatchObject({ parentUuid: 'u-1', type: 'user', userType: 'external', sessionId: SESSION });
    expect(JSON.stringify(lines()[1])).toContain('while you were away');
    expect(broker.inbox(SESSION)).toHaveLength(1);
    const { out } = await broker.parley(['trace', sent.message_id]);
    expect(out).toContain('offered');
    expect(out).not.toContain('shown  ');
  });

  it('is not written where there is no transcript: the mail waits', async () => {
    const broker = await new Brokerage().registered(['alice', 'bob']);
    await broker.said(['send', 'bob', 'hello'], { session: 's-alice' });
    expect(await broker.error(['deliver-inbox', '--transcript', '--session-id', 's-bob'])).toContain('the mail waits');
    expect(broker.inbox('s-bob')).toHaveLength(1);
  });
});
