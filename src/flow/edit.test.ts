import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../test/support/desk.ts';
import { alice, bob, carol } from '../../test/support/mail.ts';
import { aWorkspace } from '../../test/support/workspace.ts';
import { edit, remove } from './edit.ts';
import { blocked, owe } from './owe.ts';
import { answer, send } from './send.ts';

const PAGE = { limit: 20 };

describe('an edit', () => {
  it('is all that a reader gets who had not taken the message', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const old = await send(desk, alice, aDraft({ body: 'first words', intent: 'question' }));
    const now = await edit(desk, alice, desk.own, old.message.id, 'better words');
    const [only, ...others] = await desk.own.spool.peek(bob);
    expect(others).toEqual([]);
    expect(only?.message).toMatchObject({
      id: now.message.id,
      body: 'better words',
      parley: { replaces: old.message.id, intent: 'question' },
    });
    expect((await owe(desk.who('bob'), PAGE)).duties.map(({ id }) => id)).toEqual([now.message.id]);
    expect((await desk.own.ledger.duty(bob, old.message.id))?.ended?.as).toBe('superseded');
  });

  it('after the answer is a new event that says so, linked to the first, and owes nothing [C2A-160]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const old = await send(desk, alice, aDraft({ body: 'take port 80' }));
    await answer(desk, desk.who('bob'), desk.own, old.message.id, aDraft({ body: 'done, on port 80' }));
    const now = await edit(desk, alice, desk.own, old.message.id, 'take port 81');
    expect(now.copies[0]?.attention).toMatchObject({ reason: 'edited_after_response', policy: 'may_respond' });
    expect(now.message.parley?.replaces).toBe(old.message.id);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
  });

  it('of an old version means the last one', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft({ body: 'one' }));
    await edit(desk, alice, desk.own, message.id, 'two');
    await edit(desk, alice, desk.own, message.id, 'three');
    expect((await desk.own.spool.peek(bob)).map(({ message: { body } }) => body)).toEqual(['three']);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    await remove(desk, alice, desk.own, message.id);
    expect(await desk.own.spool.ids(bob)).toEqual([]);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
  });

  it('is its author’s alone', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    await expect(edit(desk, bob, desk.own, message.id, 'x')).rejects.toMatchObject({ code: 'not_yours' });
  });
});

describe('deleting', () => {
  it('before the answer takes the message back, and nothing is owed [C2A-161]', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft());
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(1);
    const { ended } = await remove(desk, alice, desk.own, message.id);
    expect(ended).toMatchObject([{ mailbox: 'bob', ended: { as: 'superseded' } }]);
    expect(await desk.own.spool.ids(bob)).toEqual([]);
    expect((await owe(desk.who('bob'), PAGE)).count).toBe(0);
  });

  it('by somebody else leaves what its author waits for, if work stands still for it', async () => {
    const desk = await aWorkspace('alice', 'bob');
    const { message } = await send(desk, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await remove(desk, carol, desk.own, message.id);
    expect((await blocked(desk.who('alice'), PAGE)).duties.map(({ id }) => id)).toEqual([message.id]);
  });
});
