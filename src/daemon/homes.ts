import type { Env } from '../core/env.ts';
import { openHome } from '../store/home.ts';
import type { Durability } from '../store/home.ts';
import { openBroker } from '../protocols/c2c/open-broker.ts';
import { openRemoteHome } from '../protocols/backchannel/homes.ts';
import { inOtherBroker as sessionElsewhere, brokerRoot } from '../protocols/c2c/broker-root.ts';
import { checkJournal } from '../store/journal/sqlite.ts';
import type { JournalState } from '../store/journal/sqlite.ts';
import { existsSync, readdirSync } from 'node:fs';
import type { Home, Workspace } from '../core/mail/workspace.ts';
import { backchannelHome, brokersFolder, parleyHome } from '../platform/env.ts';
import type { AgentName, MessageId } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { MIGRATIONS } from '../store/journal/schema.ts';

/** The settings to open a workspace with. `agent` and `relay` choose one of several relays. */
export interface WorkspaceSettings {
  bodyLimit: number;
  durability: Durability;
  agent?: AgentName | undefined;
  relay?: string | undefined;
}

/** Opens every home that exists, and makes Parley's own. `stays`: for a process that runs long and closes the directories at its end. */
export function openWorkspace(
  env: Env,
  settings: WorkspaceSettings,
  { stays = false, cwd = process.cwd() } = {},
): Workspace {
  const { durability, bodyLimit } = settings;
  const home = parleyHome(env);
  const local = [openHome('parley', home, durability, stays)];
  if (existsSync(backchannelHome(env))) local.push(openHome('bch', backchannelHome(env), durability, stays));
  const broker = knownBroker(env, cwd);
  if (broker !== undefined) local.push(openBroker(broker, durability).home);
  const remote = relayFolder(home, settings);
  return {
    homes: remote === undefined ? local : [openRemoteHome({ root: remote, durability }), ...local],
    now: Date.now,
    newId: () => crypto.randomUUID() as MessageId,
    bodyLimit,
    unreachable: async (text) => inOtherBroker(env, broker, text),
  };
}

/** Opens the other homes of this machine that have a ledger: those made since, and brokers of other folders. Leaves out `known` roots. */
export function openOtherHomes(env: Env, known: ReadonlySet<string>, durability: Durability): Home[] {
  const brokers = `${brokersFolder(env)}/repos`;
  const repositories = existsSync(brokers) ? readdirSync(brokers) : [];
  const isNew = (root: string): boolean => !known.has(root) && existsSync(`${root}/ledger.db`);
  const bch = [backchannelHome(env)].filter(isNew).map((root) => openHome('bch', root, durability));
  const c2c = repositories.map((name) => `${brokers}/${name}/broker`).filter(isNew);
  return [...bch, ...c2c.map((root) => openBroker(root, durability).home)];
}

/** The refusal for a name that only the broker of another folder knows: it says where the name is known. Null: no broker knows it. */
async function inOtherBroker(env: Env, own: string | undefined, text: string): Promise<Refusal | null> {
  return existsSync(brokersFolder(env)) ? sessionElsewhere(env, own, text) : null;
}

/** The broker of the working folder, if there is one. Without c2c this costs one `existsSync`. */
function knownBroker(env: Env, cwd: string): string | undefined {
  const isNamed = env['C2C_MCP_BROKER_ROOT'] || env['C2C_BROKER_ROOT'];
  if (!isNamed && !existsSync(brokersFolder(env))) return undefined;
  const root = brokerRoot(env, cwd);
  return existsSync(root) ? root : undefined;
}

/** The folder of an agent that joined a relay; undefined for an agent of this machine. */
function relayFolder(home: string, { agent, relay }: WorkspaceSettings): string | undefined {
  if (agent === undefined || !existsSync(`${home}/relays`)) return undefined;
  const own = readdirSync(`${home}/relays`).filter((name) => name.startsWith(`${agent}@`));
  const [only, ...others] = own.filter((name) => relay === undefined || name.includes(relay));
  if (others.length === 0) return only === undefined ? undefined : `${home}/relays/${only}`;
  throw new Refusal('ambiguous', `@${agent} is at several relays; set PARLEY_RELAY to one of ${own.join(', ')}`);
}

/** The newest format of the ledger that this version knows. */
export const JOURNAL_FORMAT = MIGRATIONS.length;

/** Checks the ledger of a home without opening the home; null if there is none. */
export function inspectJournal(root: string): JournalState | null {
  return checkJournal(`${root}/ledger.db`);
}
