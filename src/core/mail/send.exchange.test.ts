import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { Draft } from '../message.ts';
import { AgentName } from '../names.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { aWorkspace, anOwner } from '../../../test/support/workspace.ts';
import { react } from '../obligations/react.ts';
import { answer, send } from './send.ts';
import type { Sent } from './send.ts';
import { settle } from './settle.ts';

const paraphrase = `${import.meta.dir}/../../../test/fixtures/storms/paraphrase.json`;
const { lines } = JSON.parse(readFileSync(paraphrase, 'utf8')) as { lines: string[] };
const alice = AgentName.parse('alice');

/** Sends 48 wordings of the same thought, each as a reply to the one before. Returns the last one. */
async function atLength(
  workspace: TestWorkspace,
  meanwhile: (sent: Sent, turn: number) => Promise<unknown> = async () => {},
): Promise<Sent> {
  let last = await send(workspace, alice, Draft.parse({ to: '@bob', body: lines[0] }));
  for (let turn = 1; turn < 48; turn += 1) {
    workspace.pass(20_000);
    await meanwhile(last, turn);
    last = await next(workspace, last, lines[turn] ?? '');
  }
  return last;
}

function next(workspace: TestWorkspace, last: Sent, body: string): Promise<Sent> {
  const writer = last.message.from === 'alice' ? 'bob' : 'alice';
  return answer(workspace, workspace.who(writer), workspace.own, last.message.id, Draft.parse({ to: '-', body }));
}

const reasonOf = ({ copies }: Sent): string | undefined => copies[0]?.attention.reason;

describe('an exchange of agents [C2A-D10]', () => {
  it('is held as a long exchange after 48 messages, although each was answered', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const last = await atLength(workspace);
    expect(reasonOf(last)).not.toBe('loop');
    expect(reasonOf(await next(workspace, last, 'and so it goes on'))).toBe('loop');
  });

  it('is not held if a reader acknowledged one of the messages', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const last = await atLength(workspace, async ({ message }, turn) => {
      const reader = workspace.who(message.to.slice(1));
      if (turn === 20) await settle(reader, message.id, 'acknowledged', { by: 'ack', agent: reader.name });
    });
    expect(reasonOf(await next(workspace, last, 'and so it goes on'))).not.toBe('loop');
  });

  it('is not held if a reader reacted to one of the messages', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const last = await atLength(workspace, async ({ message }, turn) => {
      if (turn === 20) await react(workspace, workspace.who(message.to.slice(1)), message.id, { signal: 'working' });
    });
    expect(reasonOf(await next(workspace, last, 'and so it goes on'))).not.toBe('loop');
  });

  it('is not held if a person wrote in it', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const last = await atLength(workspace, async ({ message }, turn) => {
      const said = { to: message.to, thread: message.id, body: 'go on, you two' };
      if (turn === 20) await send(workspace, AgentName.parse('will'), Draft.parse(said));
    });
    expect(reasonOf(await next(workspace, last, 'and so it goes on'))).not.toBe('loop');
  });

  it('is shown again from the first message that states a fact', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const held = await next(workspace, await atLength(workspace), 'and so it goes on');
    const fact = await next(workspace, held, 'the cache is set up in src/cache.ts');
    expect([reasonOf(held), reasonOf(fact), reasonOf(await next(workspace, fact, 'I see'))]).toEqual([
      'loop',
      'thread_reply',
      'thread_reply',
    ]);
  });
});
