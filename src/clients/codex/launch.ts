import { existsSync, readFileSync } from 'node:fs';
import { userHome } from '../../platform/env.ts';
import { tableIn } from '../settings/client-settings.ts';
import { readToml } from '../settings/toml.ts';
import { codexFolder } from './settings.ts';
import { openThread } from './thread.ts';
import type { ThreadOptions } from './thread.ts';
import { hasOption, isSession, isUuid } from '../launch.ts';
import type { Launch, Launcher, LaunchOrder } from '../launch.ts';
import type { Server } from '../settings/client-settings.ts';

/** Commands of Codex that do not begin a session. */
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
/** With any of these options Codex runs without its daemon. */
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
/** Options of the conversation that take a value, and their names in `thread/start`. */
const OF_THE_THREAD: Readonly<Record<string, keyof ThreadOptions>> = {
  '-m': 'model',
  '--model': 'model',
  '-s': 'sandbox',
  '--sandbox': 'sandbox',
  '-a': 'approvalPolicy',
  '--ask-for-approval': 'approvalPolicy',
};
const UNGUARDED = ['--yolo', '--dangerously-bypass-approvals-and-sandbox'];
/** Options that concern only the window or its first prompt. */
const OF_THE_WINDOW = ['-i', '--image', '--no-alt-screen', '-C', '--cd'];

/**
 * Codex 0.166, as seen with the real client: with any `-c` a window runs without the daemon, and an idle session cannot be reached there; with
 * `--remote` the daemon ignores the window's `-c`. So Parley begins the conversation through the daemon, with its MCP server and the name of
 * the session, and the window resumes it. `parley run` adds no hooks, because Codex would ask its user to trust them; `parley install` does.
 */
export const codexLauncher: Launcher = {
  beginsSession: (args) => isSession(args, OTHER_COMMANDS),
  folderIn(args) {
    const at = args.findIndex((word) => word === '-C' || word === '--cd');
    return at < 0 ? args.find((word) => word.startsWith('--cd='))?.slice('--cd='.length) : args[at + 1];
  },
  sessionIn: ([first = '', ...rest]) => (first === 'resume' ? rest.find(isUuid) : undefined),
  async prepare(order: LaunchOrder): Promise<Launch> {
    const { args, name } = order;
    const [first = ''] = args;
    if (ONE_SHOT.includes(first) || hasOption(args, ...WITHOUT_DAEMON))
      return {
        added: overrides(order.server),
        env: { ...order.env, PARLEY_AGENT: name },
        canBeWoken: false,
        otherwise: ONE_SHOT.includes(first) ? WAITS : BY_QUEUE,
        notes: [],
      };
    // The daemon passes its own environment to the shells of all sessions, so it must not have the name of one.
    const env = { ...order.env, PARLEY_AGENT: undefined };
    const untouched: Launch = { added: [], env, canBeWoken: false, otherwise: WITH_PROMPT, notes: [] };
    const continued = codexLauncher.sessionIn(args);
    if (CONTINUED.includes(first) && continued === undefined) return { ...untouched, notes: [NO_TOOLS] };
    const options = continued === undefined ? optionsIn(args) : optionsIn(args.slice(1));
    if ('unfit' in options) return { ...untouched, notes: [`with ${options.unfit}, ${NO_TOOLS}`] };
    const isUntrusted = continued === undefined && !options.sandbox && !isFolderTrusted(order);
    const thread = await openThread({ ...order, env }, { options, continued, isUntrusted });
    if (!('id' in thread)) return { ...untouched, notes: [`${thread.trouble}; ${NO_TOOLS}`] };
    const added = continued === undefined ? ['resume', thread.id] : [];
    return { added, env, canBeWoken: true, otherwise: WAITS, notes: [], session: thread.id };
  },
};

/** Did the user tell Codex to trust this folder or a parent of it? A `sandbox_mode` for all folders counts as well. */
export function isFolderTrusted({ env, folder }: Pick<LaunchOrder, 'env' | 'folder'>): boolean {
  try {
    const path = `${codexFolder({ home: userHome(env), env })}/config.toml`;
    const config = existsSync(path) ? readToml(readFileSync(path, 'utf8')) : {};
    if (config['sandbox_mode'] !== undefined) return true;
    const trusted = Object.entries(tableIn(config['projects']))
      .filter(([, project]) => tableIn(project)['trust_level'] === 'trusted')
      .map(([project]) => project);
    return trusted.some((project) => folder === project || folder.startsWith(`${project.replace(/\/$/, '')}/`));
  } catch {
    // The settings cannot be read, and Codex reports that itself.
    return true;
  }
}

/** The options of the conversation; `unfit` is the first option that cannot be passed to the daemon. */
function optionsIn(args: readonly string[]): ThreadOptions | { unfit: string } {
  const options: ThreadOptions = {};
  for (let at = 0; at < args.length; at += 1) {
    const [word, glued] = splitOption(args[at] ?? '');
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

/** Splits `--model=x` into the option and its value. */
function splitOption(word: string): [name: string, value?: string] {
  const [, name, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
  return name === undefined || value === undefined ? [word] : [name, value];
}

const WAITS = 'mail waits until its model asks for it';
/** Codex has no queue for a conversation without a first prompt. */
const BY_QUEUE =
  'mail reaches this session by itself after your first prompt, because it runs without the daemon of Codex';
/** Only the hook of `parley install` brings mail here: Parley knows which conversation a window shows only if it began that one. */
const WITH_PROMPT = 'mail comes with your next prompt, after `parley install codex`';
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
