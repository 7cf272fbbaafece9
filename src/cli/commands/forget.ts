import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Who } from '../../flow/desk.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { clientBindings, clientOf } from '../client-bindings.ts';
import { command } from '../command.ts';
import { refuseUnlessUser } from '../consent.ts';
import { namesIn, Session } from '../../delivery/hook-session.ts';
import { ceaseDefault } from '../settings-file.ts';
import { parleyHome } from '../env.ts';
import { agentFrom } from '../whom.ts';

export default command({
  usage: 'forget <agent>',
  about:
    'Removes an agent for good: its record, its mailbox with everything that waits there, and its copies in the ledger, with the ' +
    'messages that it alone had part in. What it wrote to others stays with them.',
  options: { yes: { type: 'boolean', help: 'really do it' } },
  words: [1, 1],
  examples: ['parley forget codex-1 --yes', 'parley forget codex-1%bch --yes'],
  async run(context, values, [text = '']) {
    const who = await agentFrom(context.desk, text);
    const { name, home } = who;
    if (home.far)
      throw new Refusal('not_yours', `@${name} is at ${home.far.url}; only the host of that relay removes agents`);
    if ((await home.directory.get(name))?.parley?.kind === 'human')
      refuseUnlessUser(context.env, "forget a person's mailbox");
    const waiting = (await home.spool.ids(name)).length;
    if (!values.yes) {
      const mail =
        waiting === 0
          ? 'nothing waits for it'
          : `${waiting} waiting ${waiting === 1 ? 'message goes' : 'messages go'} with it`;
      throw new Refusal(
        'invalid_request',
        `@${name} in ${home.root} would be removed for good (${mail}); say --yes to do it`,
      );
    }
    const wasOwner = (await home.directory.get(name))?.parley?.owner === true;
    const client = clientOf(clientBindings(parleyHome(context.env)), name);
    const asides = await remove(who);
    forgetSessions(who);
    const { copies, messages } = await home.ledger.forget(name);
    await home.directory.remove(name);
    // Somebody may have sent to it before its record was gone.
    await home.spool.remove(name);
    const wasDefault = home.label === 'parley' && ceaseDefault(join(parleyHome(context.env), 'config.json'), name);
    if (context.json)
      return context.sayJson({ agent: name, home: home.label, waiting, copies, messages, asides, wasDefault });
    context.say(
      `forgot @${name}: its record and mailbox (${waiting} waiting), ${copies} copies and ${messages} messages in the ledger`,
    );
    if (wasOwner) context.note('it was the owner; another person becomes it with `parley init <name> --human --owner`');
    if (client !== undefined && home.label === 'parley')
      context.note(`${client} is still bound to it; \`parley install ${client} --as <name>\` gives it another`);
    if (wasDefault) context.note('it was who you are here; be another with `parley init <name> --default`');
  },
});

/** The mailbox first: until the record is gone, an interrupted removal can be run again. */
async function remove({ name, home }: Who): Promise<number> {
  await home.spool.remove(name);
  const asides = (await home.spool.asides()).filter((path) => path.startsWith(`${home.root}/aside/${name}/`));
  for (const path of asides) rmSync(path, { recursive: true, force: true });
  return asides.length;
}

/** A session that was bound to it asks anew who it is. */
function forgetSessions({ name, home }: Who): void {
  for (const id of namesIn(`${home.root}/sessions`)) {
    const session = Session.open(home.root, id);
    if (session?.binding()?.agent === name) rmSync(`${home.root}/sessions/${id}`, { recursive: true, force: true });
  }
}
