import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace } from '../../../test/support/workspace.ts';
import { edit, remove } from './edit.ts';
import { blocked, owe } from '../../core/obligations/owed.ts';
import { answer, send } from '../../core/mail/send.ts';

const PAGE = { limit: 20 };

describe('an edit', () => {
  it('before the reader took the message is all that the reader gets', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const old = await send(workspace, alice, aDraft({ body: 'first words', intent: 'question' }));
    const now = await edit(workspace, alice, workspace.own, old.message.id, { body: 'better words' });
    const [only, ...others] = await workspace.own.mailboxes.peek(bob);
    expect(others).toEqual([]);
    expect(only?.message).toMatchObject({
      id: now.message.id,
      body: 'better words',
      parley: { replaces: old.message.id, intent: 'question' },
    });
    expect((await owe(workspace.who('bob'), PAGE)).obligations.map(({ id }) => id)).toEqual([now.message.id]);
    expect((await workspace.own.journal.obligation(bob, old.message.id))?.ended?.as).toBe('superseded');
  });

  it('after the answer is a new event that says so, linked to the first, and owes nothing [C2A-160]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const old = await send(workspace, alice, aDraft({ body: 'take port 80' }));
    await answer(workspace, workspace.who('bob'), workspace.own, old.message.id, aDraft({ body: 'done, on port 80' }));
    const now = await edit(workspace, alice, workspace.own, old.message.id, { body: 'take port 81' });
    expect(now.copies[0]?.attention).toMatchObject({ reason: 'edited_after_response', policy: 'may_respond' });
    expect(now.message.parley?.replaces).toBe(old.message.id);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
  });

  it('of an old version edits the latest one', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ body: 'one' }));
    await edit(workspace, alice, workspace.own, message.id, { body: 'two' });
    await edit(workspace, alice, workspace.own, message.id, { body: 'three' });
    expect((await workspace.own.mailboxes.peek(bob)).map(({ message: { body } }) => body)).toEqual(['three']);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    await remove(workspace, alice, workspace.own, message.id);
    expect(await workspace.own.mailboxes.ids(bob)).toEqual([]);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
  });

  it('is refused to anyone but the author', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await expect(edit(workspace, bob, workspace.own, message.id, { body: 'x' })).rejects.toMatchObject({
      code: 'not_yours',
    });
  });
});

describe('deleting', () => {
  it('before the answer takes the message back, and nothing is owed [C2A-161]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(1);
    const { ended } = await remove(workspace, alice, workspace.own, message.id);
    expect(ended).toMatchObject([{ mailbox: 'bob', ended: { as: 'superseded' } }]);
    expect(await workspace.own.mailboxes.ids(bob)).toEqual([]);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
  });

  it('by somebody else does not end an obligation: the author still waits for the answer', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await remove(workspace, carol, workspace.own, message.id);
    expect((await blocked(workspace.who('alice'), PAGE)).obligations.map(({ id }) => id)).toEqual([message.id]);
  });
});
