import type { Command } from './command.ts';
import type { CommandName } from './commands.ts';

/**
 * The command of this name, read when it is called; null if there is none. One function for all: a row with a function of its own for
 * each command would be made ready at every start. See ARCHITECTURE.md.
 */
export async function loadCommand(name: string): Promise<Command | null> {
  return (await moduleOf(name as CommandName))?.default ?? null;
}

function moduleOf(name: CommandName): Promise<{ default: Command }> | null {
  switch (name) {
    case 'init':
      return import('./commands/init.ts');
    case 'demo':
      return import('./commands/demo.ts');
    case 'install':
      return import('./commands/install.ts');
    case 'whoami':
      return import('./commands/whoami.ts');
    case 'trust':
      return import('./commands/trust.ts');
    case 'agents':
      return import('./commands/agents.ts');
    case 'role':
      return import('./commands/role.ts');
    case 'channels':
      return import('./commands/channels.ts');
    case 'send':
      return import('./commands/send.ts');
    case 'reply':
      return import('./commands/reply.ts');
    case 'react':
      return import('./commands/react.ts');
    case 'raise':
      return import('./commands/raise.ts');
    case 'withdraw':
      return import('./commands/withdraw.ts');
    case 'sub':
      return import('./commands/sub.ts');
    case 'unsub':
      return import('./commands/unsub.ts');
    case 'inbox':
      return import('./commands/inbox.ts');
    case 'read':
      return import('./commands/read.ts');
    case 'take':
      return import('./commands/take.ts');
    case 'ack':
      return import('./commands/ack.ts');
    case 'release':
      return import('./commands/release.ts');
    case 'drain':
      return import('./commands/drain.ts');
    case 'watch':
      return import('./commands/watch.ts');
    case 'hook':
      return import('./commands/hook.ts');
    case 'mcp':
      return import('./commands/mcp.ts');
    case 'owe':
      return import('./commands/owe.ts');
    case 'claim':
      return import('./commands/claim.ts');
    case 'defer':
      return import('./commands/defer.ts');
    case 'resolve':
      return import('./commands/resolve.ts');
    case 'own':
      return import('./commands/own.ts');
    case 'quiet':
      return import('./commands/quiet.ts');
    case 'approve':
      return import('./commands/approve.ts');
    case 'deny':
      return import('./commands/deny.ts');
    case 'events':
      return import('./commands/events.ts');
    case 'why':
      return import('./commands/why.ts');
    case 'trace':
      return import('./commands/trace.ts');
    case 'history':
      return import('./commands/history.ts');
    case 'search':
      return import('./commands/search.ts');
    case 'join':
      return import('./commands/join.ts');
    case 'invite':
      return import('./commands/invite.ts');
    case 'room':
      return import('./commands/room.ts');
    case 'outbox':
      return import('./commands/outbox.ts');
    case 'relay':
      return import('./commands/relay.ts');
    case 'host':
      return import('./commands/host.ts');
    case 'up':
      return import('./commands/up.ts');
    case 'down':
      return import('./commands/down.ts');
    case 'status':
      return import('./commands/status.ts');
    case 'doctor':
      return import('./commands/doctor.ts');
    case 'config':
      return import('./commands/config.ts');
    case 'prune':
      return import('./commands/prune.ts');
    case 'forget':
      return import('./commands/forget.ts');
    case 'completion':
      return import('./commands/completion.ts');
    case 'self':
      return import('./commands/self.ts');
    case 'version':
      return import('./commands/version.ts');
    default:
      return noneOf(name);
  }
}

/** Whoever adds a row to the table and no case here is told by the compiler. */
function noneOf(_name: never): null {
  return null;
}
