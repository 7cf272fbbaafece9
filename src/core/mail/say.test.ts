import { describe, expect, it } from 'bun:test';
import { aDraft } from '../../../test/support/durable-workspace.ts';
import { alice, bob, carol } from '../../../test/support/mail.ts';
import { aWorkspace, anOwner, inChannel, withRole } from '../../../test/support/workspace.ts';
import type { TestWorkspace } from '../../../test/support/workspace.ts';
import { TOOLS } from '../../protocols/c2a/shapes.ts';
import type { MessageId } from '../names.ts';
import { claim } from '../obligations/claim.ts';
import { edit } from '../../protocols/c2a/edit.ts';
import { readThread } from '../history/events.ts';
import { owe } from '../obligations/owed.ts';
import { say } from './say.ts';
import { send } from './send.ts';

const PAGE = { limit: 20 };
let keys = 0;

/** A message of bob to alice, unless `fields` say otherwise. */
function said(fields: Record<string, unknown> = {}) {
  keys += 1;
  return TOOLS['chat.send_message'].parse({
    target: '@alice',
    text: 'it is in src/parser.ts',
    idempotencyKey: `key-${keys}`,
    visibility: 'dm',
    directedness: 'to_me',
    ...fields,
  });
}

describe('a message that an agent sends by a tool', () => {
  it('is stored once per key, and every try gets the same result [C2A-9, C2A-121]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const args = said({ inReplyTo: message.id });
    const tries = await Promise.all(Array.from({ length: 10 }, () => say(workspace, workspace.who('bob'), args)));
    expect(new Set(tries.map((one) => one.message.id)).size).toBe(1);
    expect(await workspace.own.mailboxes.ids(alice)).toHaveLength(1);
    const again = await say(workspace, workspace.who('bob'), args);
    expect(again.message.id).toBe(tries[0]?.message.id as MessageId);
    await expect(say(workspace, workspace.who('bob'), { ...args, text: 'something else' })).rejects.toMatchObject({
      code: 'key_conflict',
    });
  });

  it('ends the obligation that it answers', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const sent = await say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }));
    expect(sent.message.thread).toBe(message.id);
    expect((await owe(workspace.who('bob'), PAGE)).count).toBe(0);
    expect(await workspace.own.journal.copy(bob, message.id)).toMatchObject({ disposition: 'responded' });
  });

  it('is linked to the event that it answers, or to the last owed one if the caller names none [C2A-127]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    const first = await send(workspace, alice, aDraft());
    workspace.pass(1);
    const { message } = await send(workspace, alice, aDraft());
    workspace.pass(1);
    await send(workspace, carol, aDraft());
    const forgot = await say(workspace, workspace.who('bob'), said());
    expect(forgot.message.thread).toBe(message.id);
    await send(workspace, alice, aDraft());
    const named = await say(
      workspace,
      workspace.who('bob'),
      said({ inReplyTo: first.message.id, text: 'see src/lexer.ts' }),
    );
    expect(named.message.thread).toBe(first.message.id);
  });

  it('is not sent if the policy forbids it, and the refusal is recorded [C2A-3, C2A-88]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol', 'alice');
    const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
    const reply = said({ target: '#dev', visibility: 'channel', directedness: 'ambient', inReplyTo: message.id });
    const refused = say(workspace, workspace.who('bob'), reply);
    await expect(refused).rejects.toMatchObject({ code: 'against_policy' });
    await expect(refused).rejects.toThrow('must_not_respond');
    expect(await workspace.own.mailboxes.ids(carol)).toHaveLength(1);
    const trace = await workspace.own.journal.trace(message.id);
    const copy = trace?.copies.find(({ mailbox }) => mailbox === 'bob');
    expect(copy?.receipts).toMatchObject([{ step: 'refused', evidence: { code: 'against_policy' } }]);
  });

  it('to a post that addresses nobody is allowed only for the agent that claimed the post', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol', 'alice');
    const { message } = await send(workspace, alice, aDraft({ to: '#dev' }));
    const reply = (): ReturnType<typeof said> =>
      said({ target: '#dev', visibility: 'channel', directedness: 'ambient', inReplyTo: message.id });
    await claim(workspace, workspace.who('bob'), message.id);
    expect((await say(workspace, workspace.who('bob'), reply())).first).toBe(true);
    await expect(say(workspace, workspace.who('carol'), reply())).rejects.toThrow('must_not_respond');
  });

  it('in a channel needs a claim, and is refused for everybody but the holder of the claim [C2A-132, C2A-134, C2A-91, C2A-102]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await withRole(workspace, 'backend', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol', 'alice');
    const { message } = await send(workspace, alice, aDraft({ to: '#dev', body: '@backend who knows the parser' }));
    workspace.pass(61_000);
    const reply = (): ReturnType<typeof said> =>
      said({ target: '#dev', visibility: 'channel', directedness: 'ambient', inReplyTo: message.id });
    await expect(say(workspace, workspace.who('bob'), reply())).rejects.toMatchObject({ code: 'against_policy' });
    await claim(workspace, workspace.who('carol'), message.id);
    const refused = say(workspace, workspace.who('bob'), reply());
    await expect(refused).rejects.toMatchObject({ code: 'already_claimed' });
    await expect(refused).rejects.toThrow('@carol');
    await say(workspace, workspace.who('carol'), reply());
    expect(await workspace.own.journal.obligation(carol, message.id)).toMatchObject({ ended: { as: 'responded' } });
  });

  it('is allowed for an agent that is asked by name in an exchange that another agent has claimed', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'bob', 'carol', 'alice');
    const { message: root } = await send(workspace, alice, aDraft({ to: '#dev' }));
    await claim(workspace, workspace.who('carol'), root.id);
    const { message } = await send(workspace, alice, aDraft({ to: '#dev', body: '@bob is it red?', thread: root.id }));
    const reply = said({ target: '#dev', visibility: 'channel', directedness: 'ambient', inReplyTo: message.id });
    expect((await say(workspace, workspace.who('bob'), reply)).first).toBe(true);
  });

  it('about a superseded event is refused with that reason [C2A-92]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    await edit(workspace, alice, workspace.own, message.id, { body: 'hello again' });
    const refused = say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }));
    await expect(refused).rejects.toThrow('superseded');
  });

  it('after the deadline is refused until its author has read the thread since then [C2A-152, C2A-92, C2A-D11]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const { message } = await send(workspace, alice, aDraft());
    await readThread([workspace.who('bob')], { event: message.id }, { limit: 9, now: workspace.now() });
    await workspace.live(6 * 60_000);
    const late = say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }));
    await expect(late).rejects.toThrow(/deadline has passed.*chat\.read_thread/);
    await readThread([workspace.who('bob')], { event: message.id }, { limit: 9, now: workspace.now() });
    const sent = await say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }));
    expect(sent.first).toBe(true);
  });

  it('after an earlier deadline that the event sets is refused until the thread was read since then [C2A-152, C2A-D11]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const deadline = new Date(workspace.now() + 60_000).toISOString();
    const { message } = await send(workspace, alice, aDraft({ deadline }));
    await workspace.live(61_000);
    const late = say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }));
    await expect(late).rejects.toThrow('deadline has passed');
    await readThread([workspace.who('bob')], { event: message.id }, { limit: 9, now: workspace.now() });
    expect((await say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }))).first).toBe(true);
  });

  it('after a later deadline that the event sets is refused until the thread was read since then [C2A-152, C2A-D11]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const deadline = new Date(workspace.now() + 20 * 60_000).toISOString();
    const { message } = await send(workspace, alice, aDraft({ deadline }));
    await workspace.live(15 * 60_000);
    await readThread([workspace.who('bob')], { event: message.id }, { limit: 9, now: workspace.now() });
    await workspace.live(6 * 60_000);
    const late = say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }));
    await expect(late).rejects.toThrow('deadline has passed');
  });

  it('to an obligation is allowed without reading the thread, however late it is [C2A-D11]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    await anOwner(workspace);
    const { message } = await send(workspace, alice, aDraft({ obligation: { blocks: 'halted' } }));
    await workspace.live(60 * 60_000);
    expect((await say(workspace, workspace.who('bob'), said({ inReplyTo: message.id }))).first).toBe(true);
  });

  it('to thanks may only be a short receipt [C2A-98]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft({ body: 'thanks!' }));
    const long = said({ inReplyTo: message.id, text: 'w'.repeat(81) });
    await expect(say(workspace, workspace.who('bob'), long)).rejects.toThrow('chat.react');
    const short = said({ inReplyTo: message.id, text: 'w'.repeat(80) });
    expect((await say(workspace, workspace.who('bob'), short)).first).toBe(true);
  });

  it('may oblige one agent at most [C2A-99]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol', 'dora');
    await inChannel(workspace, '#dev', 'alice', 'carol', 'dora');
    await withRole(workspace, 'backend', 'carol', 'dora');
    const toTwo = said({ target: '#dev', visibility: 'channel', text: '@carol @dora please look' });
    await expect(say(workspace, workspace.who('bob'), toTwo)).rejects.toMatchObject({ code: 'against_policy' });
    await expect(say(workspace, workspace.who('bob'), said({ target: '@backend' }))).rejects.toMatchObject({
      code: 'against_policy',
    });
    const toOne = said({ target: '#dev', visibility: 'channel', text: '@carol please look' });
    expect((await say(workspace, workspace.who('bob'), toOne)).first).toBe(true);
  });

  it('in nearly the same words as the one before is refused [C2A-N6, C2A-92]', async () => {
    const workspace = await aWorkspace('alice', 'bob');
    const { message } = await send(workspace, alice, aDraft());
    const words = 'I will look at the parser and tell you what I find there';
    await say(workspace, workspace.who('bob'), said({ inReplyTo: message.id, text: words }));
    const again = say(workspace, workspace.who('bob'), said({ inReplyTo: message.id, text: `${words} soon` }));
    await expect(again).rejects.toThrow('already');
  });

  it('with directedness ambient addresses nobody, also if its text names an agent [C2A-97]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'carol');
    const fields = { target: '#dev', visibility: 'channel', directedness: 'ambient', text: 'I talked to @carol' };
    const sent = await say(workspace, workspace.who('bob'), said(fields));
    expect(sent.copies[0]?.attention).toMatchObject({ directedness: 'ambient', policy: 'must_not_respond' });
  });

  it('is never shown to more readers than its visibility allows [C2A-129]', async () => {
    const workspace = await aWorkspace('alice', 'bob', 'carol');
    await inChannel(workspace, '#dev', 'alice', 'carol');
    const sends = [
      said({ target: '#dev', visibility: 'ephemeral', directedness: 'ambient' }),
      said({ target: '#dev', visibility: 'dm', directedness: 'ambient' }),
      // These visibilities do not fit the address.
      said({ visibility: 'channel' }),
      said({ visibility: 'thread' }),
    ];
    for (const args of sends)
      await expect(say(workspace, workspace.who('bob'), args)).rejects.toThrow(/dm|visibility thread/);
    expect(await workspace.own.mailboxes.ids(alice)).toEqual([]);
  });

  it('to the owner is allowed at any time [C2A-87]', async () => {
    const workspace = await aWorkspace('bob');
    await anOwner(workspace);
    const sent = await say(
      workspace,
      workspace.who('bob'),
      said({ target: '@will', text: 'may I delete the old tables?' }),
    );
    expect(sent.copies[0]?.attention).toMatchObject({ directedness: 'to_me', policy: 'must_respond' });
  });

  it('about an event of others is refused as if the event did not exist', async () => {
    const workspace: TestWorkspace = await aWorkspace('alice', 'bob', 'carol');
    const { message } = await send(workspace, alice, aDraft());
    const reply = said({ inReplyTo: message.id });
    await expect(say(workspace, workspace.who('carol'), reply)).rejects.toMatchObject({ code: 'not_found' });
  });
});
