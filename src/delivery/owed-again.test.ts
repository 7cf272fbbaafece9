import { expect, it } from 'bun:test';
import { aDraft } from '../../test/support/durable-workspace.ts';
import { alice, bob } from '../../test/support/mail.ts';
import { aWorkspace } from '../../test/support/workspace.ts';
import type { TestWorkspace } from '../../test/support/workspace.ts';
import { send } from '../core/mail/send.ts';
import type { MessageId } from '../core/names.ts';
import { shownAndOwed } from './owed-again.ts';
import { endQuiet } from './wake-budget.ts';

async function asked(workspace: TestWorkspace, count: number): Promise<MessageId[]> {
  const ids: MessageId[] = [];
  for (let n = 0; n < count; n += 1)
    ids.push((await send(workspace, alice, aDraft({ body: `question ${n}?`, intent: 'question' }))).message.id);
  return ids;
}

async function show({ own }: TestWorkspace, ids: MessageId[]): Promise<void> {
  const claim = await own.mailboxes.claim(bob, ids, { ms: 60_000 });
  await own.mailboxes.settle(claim, ids, { disposition: 'acknowledged', by: { session: 's1' } }, 'shown');
}

it('shows a session again what it owes, however much older mail it was never shown', async () => {
  const workspace = await aWorkspace('alice', 'bob');
  await asked(workspace, 25);
  workspace.pass(1000);
  const [shown] = await asked(workspace, 1);
  await show(workspace, shown ? [shown] : []);
  expect((await shownAndOwed(workspace.who('bob'), 's1')).map(({ message }) => message.id)).toEqual(
    shown ? [shown] : [],
  );
});

it('raises what came in a quiet time, however much older mail is shown and not answered', async () => {
  const workspace = await aWorkspace('alice', 'bob');
  await show(workspace, await asked(workspace, 110));
  workspace.pass(1000);
  await workspace.own.directory.amend(bob, () => ({ quiet: { on: true } }));
  const [quiet] = await asked(workspace, 1);
  await workspace.own.directory.amend(bob, () => ({ quiet: undefined }));
  await endQuiet(workspace.who('bob'), workspace.now());
  const copy = quiet && (await workspace.own.journal.copy(bob, quiet));
  expect(copy?.attention.injection).toBe('buffered');
});
