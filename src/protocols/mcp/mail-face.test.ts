import { describe, expect, it } from 'bun:test';
import { readFileSync } from 'node:fs';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice } from '../../../test/support/mail.ts';
import { aWorkspace, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { send } from '../../core/mail/send.ts';
import { claim } from '../../core/obligations/claim.ts';
import { Refusal } from '../../core/refusal.ts';
import { MAIL_TOOL_LIST, mailFace } from './mail-face.ts';

/** A tool's answer to bob, or its refusal. */
async function called(workspace: TestWorkspace, name: string, given: object): Promise<string> {
  const face = mailFace('1', async () => ({ workspace, who: workspace.who('bob'), gather: async () => {} }));
  const said: string[] = [];
  try {
    await face.call(name, given, (...texts) => said.push(...texts), {});
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return face.refusal(error.message);
  }
  return said.join('\n');
}

const MINUTE = 60_000;

describe('the mail tools', () => {
  it('send an identical call within ten minutes once, and after that as another message', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const waiting = async () => (await workspace.own.mailboxes.ids(alice)).length;
    const call = { to: '@alice', text: 'the build is red' };
    workspace.pass(7 * MINUTE);
    await called(workspace, 'send', call);
    for (const minutes of [2, 2, 5]) {
      workspace.pass(minutes * MINUTE);
      expect(await called(workspace, 'send', call)).toStartWith('was stored before as ');
    }
    expect(await waiting()).toBe(1);
    workspace.pass(MINUTE);
    expect(await called(workspace, 'send', call)).toStartWith('stored as ');
    expect(await waiting()).toBe(2);
  });

  it('send a call that differs in any field as another message', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    for (const more of [{}, { text: 'it is green' }, { intent: 'fyi' }, { urgent: true }])
      await called(workspace, 'send', { to: '@alice', text: 'it is red', ...more });
    expect(await workspace.own.mailboxes.ids(alice)).toHaveLength(4);
  });

  it('reply to a message that was offered to several only after a claim', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await withRole(workspace, 'dba', 'bob');
    const offered = await send(workspace, alice, aDraft({ to: '@dba', body: 'who can?', intent: 'question' }));
    workspace.pass(2 * MINUTE);
    const offer = { id: offered.message.id, text: 'I can' };
    expect(await called(workspace, 'reply', offer)).toBe(
      'it was offered to several: take it with claim first, so that one of you answers',
    );
    await called(workspace, 'claim', { id: offer.id });
    expect(await called(workspace, 'reply', offer)).toStartWith('stored as ');
  });

  it('reply late without a look at the thread, unless others went on there', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const ask = async (body: string, thread?: string) =>
      (await send(workspace, alice, aDraft({ to: '@bob', body, thread, intent: 'question' }))).message;
    const quiet = await ask('is it green?');
    const asked = await ask('is it red?');
    workspace.pass(6 * MINUTE);
    expect(await called(workspace, 'reply', { id: quiet.id, text: 'green' })).toStartWith('stored as ');
    await ask('or was it the cache?', asked.id);
    const late = { id: asked.id, text: 'it is, since noon' };
    expect(await called(workspace, 'reply', late)).toBe(
      'its deadline has passed and much may have changed: read the thread with read, then answer',
    );
    await called(workspace, 'read', { id: asked.id });
    expect(await called(workspace, 'reply', late)).toStartWith('stored as ');
  });

  it('call it a message when they refuse one that another agent has claimed', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#ops', 'alice', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft({ to: '#ops', body: 'who can?', intent: 'question' }));
    await claim(workspace, workspace.who('carol'), message.id);
    expect(await called(workspace, 'claim', { id: message.id })).toBe(
      `@carol answers for message ${message.id.slice(0, 8)}; leave it to them`,
    );
  });

  it.each(MAIL_TOOL_LIST.flatMap(({ name, inputSchema }) => (inputSchema.required ? [[name, inputSchema]] : [])))(
    '%s say which argument is missing',
    async (name, { required }) => {
      const workspace = await aWorkspace('bob');
      expect(await called(workspace, name, {})).toBe(`${required?.[0]} is missing`);
    },
  );

  it('are those that the skill names', () => {
    const skill = readFileSync(new URL('../../../SKILL.md', import.meta.url), 'utf8');
    const [table = ''] = /\| you want \| tool \|\n[^]*?\n\n/.exec(skill) ?? [];
    const named = [...table.matchAll(/`([a-z_]+)[`(]/g)].map(([, name = '']) => name);
    expect(named.toSorted()).toEqual(MAIL_TOOL_LIST.map(({ name }) => name as string).sort());
  });
});
