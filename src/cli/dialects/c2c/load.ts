import type { C2cCommand } from './command.ts';

/** The commands of c2c. The file behind each is read only when the command is called, and by one function for all, see ../../load.ts. */
export const C2C_COMMANDS = [
  'register',
  'whoami',
  'list',
  'send',
  'send-all',
  'poll-inbox',
  'peek-inbox',
  'history',
  'rooms',
  'room',
  'my-rooms',
  'dead-letter',
  'set-dnd',
  'dnd',
  'open-pending-reply',
  'check-pending-reply',
  'clear-compact',
  'set-compact',
  'repo',
  'monitor',
  'hook',
  'mcp',
  'serve',
  'oc-plugin',
  'statefile',
  'install',
  'wire-daemon',
  'deliver-inbox',
  'start',
  'stop',
  'restart',
  'instances',
  'doctor',
  'version',
  'help',
] as const;

export function loadC2c(name: (typeof C2C_COMMANDS)[number]): Promise<{ default: C2cCommand }> {
  switch (name) {
    case 'register':
      return import('./register.ts');
    case 'whoami':
      return import('./whoami.ts');
    case 'list':
      return import('./list.ts');
    case 'send':
      return import('./send.ts');
    case 'send-all':
      return import('./send-all.ts');
    case 'poll-inbox':
      return import('./poll-inbox.ts');
    case 'peek-inbox':
      return import('./peek-inbox.ts');
    case 'history':
      return import('./history.ts');
    case 'rooms':
    case 'room':
      return import('./rooms.ts');
    case 'my-rooms':
      return import('./my-rooms.ts');
    case 'dead-letter':
      return import('./dead-letter.ts');
    case 'set-dnd':
    case 'dnd':
      return import('./dnd.ts');
    case 'open-pending-reply':
      return import('./open-pending-reply.ts');
    case 'check-pending-reply':
      return import('./check-pending-reply.ts');
    case 'clear-compact':
    case 'set-compact':
      return import('./compact.ts');
    case 'repo':
      return import('./repo.ts');
    case 'monitor':
      return import('./monitor.ts');
    case 'hook':
      return import('./hook.ts');
    case 'mcp':
    case 'serve':
      return import('./mcp.ts');
    case 'oc-plugin':
      return import('./oc-plugin.ts');
    case 'statefile':
      return import('./statefile.ts');
    case 'install':
      return import('./install.ts');
    case 'wire-daemon':
      return import('./wire-daemon.ts');
    case 'deliver-inbox':
      return import('./deliver-inbox.ts');
    case 'start':
      return import('./start.ts');
    case 'stop':
      return import('./stop.ts');
    case 'restart':
      return import('./restart.ts');
    case 'instances':
      return import('./instances.ts');
    case 'doctor':
      return import('./doctor.ts');
    case 'version':
      return import('./version.ts');
    case 'help':
      return import('./help.ts');
  }
}
