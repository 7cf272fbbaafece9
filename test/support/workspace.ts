import type { Workspace, Home, Who } from '../../src/core/mail/workspace.ts';
import { tick } from '../../src/core/obligations/tick.ts';
import type { Obligation } from '../../src/core/obligations/rules.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import { AgentName, ChannelName, MessageId } from '../../src/core/names.ts';
import { aClock } from './clock.ts';
import { openQuickHome } from './quick-home.ts';

export interface TestWorkspace extends Workspace {
  own: Home;
  pass(ms: number): void;
  /** An agent of this home, by its name. */
  who(name: string): Who;
  /** Lets time do its work now. What comes back is noted here, unless nobody is there to show it. */
  work(isThere?: boolean): Promise<Obligation[]>;
  /** Steps through a span of time, so that everything happens when it is due. */
  live(ms: number, isThere?: boolean): Promise<Obligation[]>;
}

/** A home with these agents, and a clock that stands still. */
export async function aWorkspace(...names: string[]): Promise<TestWorkspace> {
  const clock = aClock(Date.parse('2026-03-02T10:00:00.000Z'));
  const own = openQuickHome('parley', clock.now);
  for (const name of names) await own.directory.register(AgentName.parse(name), 'agent');
  const workspace: TestWorkspace = {
    homes: [own],
    own,
    now: clock.now,
    newId: () => MessageId.parse(crypto.randomUUID()),
    bodyLimit: BODY_LIMIT,
    pass: clock.pass,
    who: (name) => ({ name: AgentName.parse(name), home: own }),
    async work(isThere = true) {
      const back: Obligation[] = [];
      await tick(workspace, own, clock.now(), {
        redeliver: async (obligation) => {
          if (isThere) back.push(obligation);
          return isThere;
        },
      });
      return back;
    },
    async live(ms, isThere) {
      const until = clock.now() + ms;
      const back: Obligation[] = [];
      for (;;) {
        back.push(...(await workspace.work(isThere)));
        const next = await own.journal.nextDue();
        if (next === null || next > until) break;
        clock.pass(Math.max(1, next - clock.now()));
      }
      clock.pass(Math.max(0, until - clock.now()));
      back.push(...(await workspace.work(isThere)));
      return back;
    },
  };
  return workspace;
}

/** The person who is told when nobody else can decide. */
export async function anOwner({ own }: TestWorkspace, name = 'will'): Promise<AgentName> {
  const owner = AgentName.parse(name);
  await own.directory.register(owner, 'human');
  await own.directory.amend(owner, () => ({ owner: true }));
  return owner;
}

export async function withRole({ own }: TestWorkspace, role: string, ...names: string[]): Promise<void> {
  for (const name of names) {
    await own.directory.amend(AgentName.parse(name), ({ roles }) => ({ roles: [...roles, AgentName.parse(role)] }));
  }
}

export async function inChannel({ own }: TestWorkspace, channel: string, ...names: string[]): Promise<void> {
  for (const name of names) await own.directory.subscribe(AgentName.parse(name), ChannelName.parse(channel));
}
