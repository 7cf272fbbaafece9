import { expect, it } from 'bun:test';
import { aWorkspace, inChannel } from '../../../test/support/workspace.ts';
import { Draft } from '../message.ts';
import { AgentName } from '../names.ts';
import type { Workspace } from './workspace.ts';
import { send } from './send.ts';

/** Agents lead and bob, the surface of a chat and two of its people, all in one channel. */
async function aChannel() {
  const workspace = await aWorkspace('lead', 'bob', 'chat._surface');
  for (const name of ['chat.u1', 'chat.u2']) await workspace.own.directory.register(AgentName.parse(name), 'human');
  await inChannel(workspace, '#c', 'lead', 'bob', 'chat._surface', 'chat.u1', 'chat.u2');
  return workspace;
}

async function readersOf(workspace: Workspace, from: string, body: string, fields: object = {}): Promise<string[]> {
  const draft = Draft.parse({ to: '#c', body, ...fields });
  return (await send(workspace, AgentName.parse(from), draft)).copies.map(({ mailbox }) => mailbox).toSorted();
}

it('what is said to all in a channel has one copy for everybody at a surface, however many they are', async () => {
  const workspace = await aChannel();
  expect(await readersOf(workspace, 'lead', 'the build is green')).toEqual(['bob', 'chat._surface']);
  expect(await readersOf(workspace, 'chat.u1', 'good morning')).toEqual(['bob', 'chat._surface', 'lead']);
});

it('anyone who is meant there has a copy of their own', async () => {
  const workspace = await aChannel();
  expect(await readersOf(workspace, 'lead', '@chat.u2 may I merge?')).toEqual(['bob', 'chat._surface', 'chat.u2']);
  await workspace.own.directory.amend(AgentName.parse('chat.u1'), () => ({ owns: ['#c'] }));
  expect(await readersOf(workspace, 'lead', 'the build is red')).toEqual(['bob', 'chat._surface', 'chat.u1']);
});

it('without a surface of theirs in the channel, people have their copies', async () => {
  const workspace = await aChannel();
  await workspace.own.directory.unsubscribe(AgentName.parse('chat._surface'), '#c' as never);
  expect(await readersOf(workspace, 'lead', 'the build is green')).toEqual(['bob', 'chat.u1', 'chat.u2']);
});
