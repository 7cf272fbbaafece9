import { startThread } from './new-thread.ts';
import type { ThreadOptions } from './new-thread.ts';
import { hasOption, isSession } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import type { Server } from '../settings/client-settings.ts';

/** Commands of Codex that begin no session. */
const OTHER_COMMANDS = [
  'agents',
  'login',
  'logout',
  'mcp',
  'plugin',
  'app-server',
  'remote-control',
  'completion',
  'update',
  'doctor',
  'sandbox',
  'debug',
  'apply',
  'a',
  'queue',
  'archive',
  'delete',
  'migrate-rollouts',
  'migrate-nfs-db',
  'unarchive',
  'cloud',
  'exec-server',
  'features',
  'help',
];
const ONE_SHOT = ['exec', 'e', 'review'];
const CONTINUED = ['resume', 'fork'];
/** With any of these Codex runs without its daemon. */
const WITHOUT_DAEMON = [
  '-c',
  '--config',
  '--enable',
  '--disable',
  '-p',
  '--profile',
  '--oss',
  '--local-provider',
  '--no-daemon',
  '--strict-config',
];
/** Options with a value that belong to the conversation, and what Codex calls them when one is begun. */
const OF_THE_THREAD: Readonly<Record<string, keyof ThreadOptions>> = {
  '-m': 'model',
  '--model': 'model',
  '-s': 'sandbox',
  '--sandbox': 'sandbox',
  '-a': 'approvalPolicy',
  '--ask-for-approval': 'approvalPolicy',
};
const UNGUARDED = ['--yolo', '--dangerously-bypass-approvals-and-sandbox'];
/** These are for the window or its first prompt. The folder is known already. */
const OF_THE_WINDOW = ['-i', '--image', '--no-alt-screen', '-C', '--cd'];

/**
 * Codex 0.166. Seen with the real client: with any `-c` a window runs without the daemon, where an idle session cannot be reached; with
 * `--remote` the daemon ignores the `-c` of the window. So the conversation is begun through the daemon, with our server and under the
 * name of the session, and the window resumes it. Hooks are left to `parley install`: a new one costs the user a trust dialog.
 */
export const codexLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  folderIn(args) {
    const at = args.findIndex((word) => word === '-C' || word === '--cd');
    return at < 0 ? args.find((word) => word.startsWith('--cd='))?.slice('--cd='.length) : args[at + 1];
  },
  async prepare(order: LaunchOrder): Promise<Launch> {
    const { args, name } = order;
    const [first = ''] = args;
    if (ONE_SHOT.includes(first) || hasOption(args, ...WITHOUT_DAEMON))
      return {
        added: overrides(order.server),
        env: { ...order.env, PARLEY_AGENT: name },
        canBeWoken: false,
        otherwise: 'mail waits until its model asks for it',
        notes: [],
      };
    // The daemon gives its own environment to the shells of all sessions: no name may be in it.
    const env = { ...order.env, PARLEY_AGENT: undefined };
    const untouched: Launch = { added: [], env, canBeWoken: true, otherwise: WAITS, notes: [] };
    if (CONTINUED.includes(first)) return { ...untouched, notes: [NO_TOOLS] };
    const read = optionsIn(args);
    if ('unfit' in read) return { ...untouched, notes: [`with ${read.unfit}, ${NO_TOOLS}`] };
    const thread = await startThread({ ...order, env }, read);
    return 'id' in thread
      ? { ...untouched, added: ['resume', thread.id], session: thread.id }
      : { ...untouched, notes: [`${thread.trouble}; ${NO_TOOLS}`] };
  },
};

/** What the words say about the conversation; or the first option that we could not give to it. */
function optionsIn(args: readonly string[]): ThreadOptions | { unfit: string } {
  const options: ThreadOptions = {};
  for (let at = 0; at < args.length; at += 1) {
    const [word = '', glued] = splitOption(args[at] ?? '');
    if (word === '--') break;
    if (!word.startsWith('-') || OF_THE_WINDOW.includes(word)) continue;
    const key = OF_THE_THREAD[word];
    if (key) options[key] = glued ?? args[(at += 1)] ?? '';
    else if (UNGUARDED.includes(word))
      Object.assign(options, { sandbox: 'danger-full-access', approvalPolicy: 'never' });
    else return { unfit: word };
  }
  return options;
}

/** `--model=x` is an option and its value. */
function splitOption(word: string): [name: string, value?: string] {
  const [, name, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
  return name === undefined || value === undefined ? [word] : [name, value];
}

const WAITS = 'mail waits until its model asks for it';
const NO_TOOLS = 'its model has the tools of Parley only after `parley install codex`';

/** A JSON string without control characters is a TOML string. */
function overrides({ command, args, env }: Server): string[] {
  const table = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const values = {
    command: JSON.stringify(command),
    args: JSON.stringify(args),
    ...(table.length > 0 && { env: `{ ${table.join(', ')} }` }),
  };
  return Object.entries(values).flatMap(([key, value]) => ['-c', `mcp_servers.parley.${key}=${value}`]);
}
