import { expect, it } from 'bun:test';
import { aWorkspace, inChannel } from '../../../test/support/workspace.ts';
import { Draft } from '../message.ts';
import { AgentName } from '../names.ts';
import type { Workspace } from './workspace.ts';
import { send } from './send.ts';

/** The agents lead and bob, the surface of a chat, and two people of the chat, all in one channel. */
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

it('a message to all in a channel has one copy for all people at a surface, however many they are', async () => {
  const workspace = await aChannel();
  expect(await readersOf(workspace, 'lead', 'the build is green')).toEqual(['bob', 'chat._surface']);
  expect(await readersOf(workspace, 'chat.u1', 'good morning')).toEqual(['bob', 'chat._surface', 'lead']);
});

it('a person at a surface who is addressed has a separate copy', async () => {
  const workspace = await aChannel();
  expect(await readersOf(workspace, 'lead', '@chat.u2 may I merge?')).toEqual(['bob', 'chat._surface', 'chat.u2']);
  await workspace.own.directory.amend(AgentName.parse('chat.u1'), () => ({ owns: ['#c'] }));
  expect(await readersOf(workspace, 'lead', 'the build is red')).toEqual(['bob', 'chat._surface', 'chat.u1']);
});

it('people have separate copies if their surface is not in the channel', async () => {
  const workspace = await aChannel();
  await workspace.own.directory.unsubscribe(AgentName.parse('chat._surface'), '#c' as never);
  expect(await readersOf(workspace, 'lead', 'the build is green')).toEqual(['bob', 'chat.u1', 'chat.u2']);
});
