import { expect, it } from 'bun:test';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { alice, bob } from '../../test/support/mail.ts';
import { aWorkspace } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import { mailboxesOf } from '../core/mail/shared.ts';
import { awaitMail } from './await-mail.ts';

it('does not wake a reader again for mail that a hook has pointed to', async () => {
  const workspace = await aWorkspace('alice', 'bob');
  const pointed = await send(workspace, alice, aDraft({ body: 'x'.repeat(40_000) }));
  await workspace.own.mailboxes.lower(bob, pointed.message.id);
  const stop = new AbortController();
  const waits = awaitMail(mailboxesOf(workspace.who('bob')), { any: true }, stop.signal);
  const next = await send(workspace, alice, aDraft({ body: 'the next' }));
  expect((await waits).map(({ message }) => message.id)).toEqual([next.message.id]);
});
