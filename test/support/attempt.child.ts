// A process that offers all of bob's mail in a home by a way, and dies by kill -9 while the way tries: `attempt.child.ts <home>`
import { attempt } from '../../src/core/mail/attempt.ts';
import { FilesDirectory } from '../../src/store/directory/files.ts';
import { bob } from './mail.ts';
import { openHome } from './maildir.ts';
import { HANDED, ScriptedWay } from './ways.ts';

const [, , root = ''] = process.argv;
const { mailboxes, journal } = await openHome(root);
const home = {
  label: 'parley' as const,
  root,
  mailboxes,
  journal,
  directory: new FilesDirectory(root, Date.now),
};
const way = new ScriptedWay('terminal', [HANDED], async () => {
  process.kill(process.pid, 'SIGKILL');
  await new Promise(() => {});
});
await attempt({ name: bob, home }, await mailboxes.ids(bob), {
  way,
  wrap: (outgoing) => outgoing.map(({ message }) => ({ id: message.id, text: message.body })),
  now: Date.now,
  signal: new AbortController().signal,
});
