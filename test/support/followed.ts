import { onTestFinished } from 'bun:test';
import { send } from '../../src/core/mail/send.ts';
import type { Draft } from '../../src/core/message.ts';
import type { AgentName, MessageId } from '../../src/core/names.ts';
import type { LiveSession } from '../../src/core/ports/live-session.ts';
import { fenced, peopleAmong } from '../../src/delivery/fit.ts';
import { Follower } from '../../src/delivery/follower.ts';
import type { FollowerDeps } from '../../src/delivery/follower.ts';
import { OfferedTexts } from '../../src/delivery/hook-offered.ts';
import { HookSessionFolder } from '../../src/delivery/hook-session.ts';
import { aDraft } from './durable-workspace.ts';
import { alice } from './mail.ts';
import { ScriptedLive } from './scripted-live.ts';
import { within } from './within.ts';
import { aWorkspace } from './workspace.ts';
import type { TestWorkspace } from './workspace.ts';

export const BOB = 'claude.api' as AgentName;

export interface Rig {
  workspace: TestWorkspace;
  claude: ScriptedLive;
  /** Further clients, looked at before it. */
  others: Map<string, ScriptedLive>;
  follow(settings?: Partial<FollowerDeps['settings']>): Follower;
  /** Before the text of a handover is made. */
  beforeText: () => Promise<void>;
  send(draft?: Partial<Draft>): Promise<MessageId>;
  steps(id: MessageId): Promise<string[]>;
  /** Why it was not handed over. */
  reasons(id: MessageId): Promise<unknown[]>;
  state(id: MessageId): Promise<string | undefined>;
}

/** A follower over scripted sessions, all of which are BOB's unless told otherwise. */
export async function aRig(nameOf: (live: LiveSession) => AgentName | null = () => BOB, match = ''): Promise<Rig> {
  const workspace = await aWorkspace('alice', BOB);
  const claude = new ScriptedLive('claude', workspace.now);
  const copyOf = async (id: MessageId) =>
    (await workspace.own.journal.trace(id))?.copies.find(({ mailbox }) => mailbox === BOB);
  const rig: Rig = {
    workspace,
    claude,
    others: new Map(),
    beforeText: async () => {},
    follow(settings = {}) {
      const follower = new Follower({
        workspace,
        clients: new Map([...rig.others, ['claude', claude]]),
        async mailboxesOf(live) {
          const name = nameOf(live);
          return name ? [{ who: workspace.who(name), match }] : [];
        },
        hookRecordOf: (_client, session, ids) => ({
          isThere: true,
          shown: () => claude.shownByHook(session, ids),
          stays: () => false,
        }),
        phrases: async ({ name: reader, home }, mail, now) => {
          await rig.beforeText();
          return fenced({ reader, mark: 'abc', now, ago: () => 'just now', people: await peopleAmong(home, mail) });
        },
        settings: { wakesPerHour: 30, captureRemote: false, ...settings },
        log: () => {},
        limits: { lookMs: 50, tickMs: 50 },
      });
      onTestFinished(() => follower.close());
      return follower;
    },
    send: async (draft = {}) => (await send(workspace, alice, aDraft({ to: `@${BOB}`, ...draft }))).message.id,
    steps: async (id) => ((await copyOf(id))?.receipts ?? []).map(({ step }) => step),
    reasons: async (id) => ((await copyOf(id))?.receipts ?? []).flatMap(({ evidence }) => evidence['because'] ?? []),
    state: async (id) => (await copyOf(id))?.state,
  };
  return rig;
}

export const settled = async (rig: Rig, id: MessageId): Promise<boolean> => (await rig.state(id)) === 'settled';

/** The follower has looked at everything at least twice since. */
export async function looked({ claude }: Rig): Promise<void> {
  const { lists } = claude;
  await within(10_000, async () => claude.changed().lists > lists + 2);
}

/** As a hook of this session prints a message at a tool call. */
export async function printed(rig: Rig, session: string, id: MessageId): Promise<void> {
  const { own, now } = rig.workspace;
  const who = rig.workspace.who(BOB);
  const folder = HookSessionFolder.open(own.root, session);
  if (!folder) throw new Error('it is a name of a folder');
  folder.bind({ v: 1, by: 'claude', agent: BOB, match: '', cwd: '/' }, `${own.root}/spool/${BOB}`);
  const deps = { readerNamed: async () => who, recordOf: () => null, worksSince: async () => null, complain() {} };
  const text = new OfferedTexts(folder, deps).begin(BOB, now());
  const offered = { step: 'offered', at: new Date(now()).toISOString(), evidence: { by: 'hook', session } } as const;
  const [mail] = await text.take(who, [id], () => {}, offered);
  if (!mail) throw new Error('it waits');
  text.close({ event: 'PostToolUse', prompt: 'p1', tool: null }, [{ mail, kind: 'whole' }], new Set());
}
