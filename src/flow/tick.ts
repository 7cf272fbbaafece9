import { step } from '../attention/ladder.ts';
import type { Step } from '../attention/ladder.ts';
import type { Duty } from '../protocol/duty.ts';
import type { Message } from '../protocol/message.ts';
import { HOST_NAME } from '../protocol/signal.ts';
import type { CopyRecord } from '../storage/ledger/ledger.ts';
import { afterEnd, endDuty, enterDuties, standOf } from './duty.ts';
import { isAgent, isHushedAt } from './attend.ts';
import type { Workspace, Home } from './workspace.ts';
import { escalate } from './escalate.ts';
import { keyOf, post, sendHeld } from './people.ts';
import { applyLate } from './reaction.ts';
import { isOffered, passOn } from './responders.ts';

/** How many duties are seen to between two looks at what is due. */
const BITE = 100;
/** When a step is tried again that was begun and not finished. */
const SOON_MS = 60_000;
/** How much of a message its reminder repeats. */
const TEXT_SHOWN = 2000;

/** What only the one who keeps time can do. */
export interface Acts {
  /** Offers the event to its reader again. False if nobody who could show it is there. */
  redeliver(duty: Duty): Promise<boolean>;
}

/**
 * What time does in one home: what is owed comes back, goes up or runs out; and an event that the chosen one did not take is offered
 * to the next. Every step is taken by changing the duty first, so of several processes one acts, and a second call does nothing. A
 * return or an escalation is counted after it was done: after a crash in between it is due again soon. Returns when to come again.
 */
export async function tick(workspace: Workspace, home: Home, now: number, act: Acts): Promise<number | null> {
  await enterDuties(home);
  await sendHeld(workspace, home);
  const rising: Duty[] = [];
  for (;;) {
    const due = await home.ledger.dueDuties(now, BITE);
    let moved = 0;
    for (const duty of due) if (await see(workspace, home, duty, now, act, rising)) moved += 1;
    // What nobody could move would be found again at once.
    if (due.length < BITE || moved === 0) break;
  }
  // All at once: what goes to the same one is one notice.
  await escalate(workspace, home, rising);
  for (const duty of rising) await isUp(workspace, home, duty, now);
  return home.ledger.nextDue();
}

/** Sees to one duty; what is to go up is put among those that rise. False if nothing was to be done, or another process did it. */
async function see(
  workspace: Workspace,
  home: Home,
  duty: Duty,
  now: number,
  act: Acts,
  rising: Duty[],
): Promise<boolean> {
  const message = await home.ledger.message(duty.id);
  const copy = await home.ledger.copy(duty.mailbox, duty.id);
  const stand = await standOf(home, duty, message);
  if (stand === 'ended') return true;
  if (stand === 'waiting') return waitOn(home, duty, now);
  if (copy && isOffered(copy) && (duty.state === 'open' || duty.state === 'claimed')) {
    return lapse(workspace, home, duty, message, now);
  }
  if (message && (await applyLate(workspace, home, duty, message))) return true;
  const done = await taken(home, duty, now);
  if (done.do === 'return') {
    await comeBack(workspace, home, done.duty, message, copy, act);
    const { state, returns, due } = done.duty;
    await home.ledger.changeDuty(duty.mailbox, duty.id, (open) =>
      isUntouched(open, now) ? { ...open, state, returns, due } : { ...open, returns },
    );
  }
  if (done.do === 'escalate') rising.push(done.duty);
  if (done.do === 'expire') await afterEnd(home, done.duty);
  return done.do !== 'nothing';
}

/** Its reader has answered: until a surface has shown that, nobody is asked again and nobody else is told. */
async function waitOn(home: Home, { mailbox, id }: Duty, now: number): Promise<true> {
  await home.ledger.changeDuty(mailbox, id, (open) => ({ ...open, due: now + open.every }));
  return true;
}

/** Takes the step that is due, alone among all processes. What is told to others may fail: until it is done, it is due again soon. */
async function taken(home: Home, { mailbox, id }: Duty, now: number): Promise<Step> {
  let done: Step | undefined;
  await home.ledger.changeDuty(mailbox, id, (open) => {
    done = step(open, now);
    if (done.do === 'nothing') return null;
    return done.do === 'expire' ? done.duty : { ...open, due: now + SOON_MS };
  });
  return done ?? { do: 'nothing', duty: { mailbox, id } as Duty };
}

/** Still as `taken` left it: its reader has not claimed it or put it off meanwhile. */
function isUntouched({ due }: Duty, now: number): boolean {
  return due === now + SOON_MS;
}

/** Another has heard of it. Its reader may still answer, after a look at what was said since. */
async function isUp(
  workspace: Workspace,
  home: Home,
  { mailbox, id, kind, state, tier, due }: Duty,
  now: number,
): Promise<void> {
  await home.ledger.changeDuty(mailbox, id, (open) =>
    isUntouched(open, now) ? { ...open, state, tier, due } : { ...open, tier },
  );
  const copy = await home.ledger.copy(mailbox, id);
  if (copy?.attention.policy !== 'must_respond' || kind !== 'reply') return;
  await home.ledger.reconsider(mailbox, id, { ...copy.attention, policy: 'may_respond' });
  const evidence = { policy: 'may_respond', because: 'its deadline has passed' };
  await home.ledger.record(mailbox, id, {
    step: 'reconsidered',
    at: new Date(workspace.now()).toISOString(),
    evidence,
  });
}

/** The one who was chosen did not take it, or let its claim run out: it is over for that one, and the next is asked. */
async function lapse(
  workspace: Workspace,
  home: Home,
  duty: Duty,
  message: Message | null,
  now: number,
): Promise<boolean> {
  const claim = await home.ledger.eventClaim(duty.id, now);
  if (claim?.holder === duty.mailbox && claim.until > now) {
    await home.ledger.changeDuty(duty.mailbox, duty.id, (open) => ({ ...open, due: claim.until }));
    return true;
  }
  const as = duty.state === 'open' ? 'ignored' : 'failed';
  await endDuty(home, duty.mailbox, duty.id, as, { because: 'nothing was heard in time' }, now);
  if (message) await passOn(workspace, home, message, now);
  return true;
}

/** Quiet times hold for what comes back as for what comes; only what a person calls urgent is let through. spec: c2a#hush */
async function isLeftAlone(home: Home, { mailbox }: Duty, message: Message | null, now: number): Promise<boolean> {
  const quiet = (await home.directory.get(mailbox))?.parley?.quiet;
  if (!quiet || !(await isHushedAt(quiet, now))) return false;
  return message?.priority !== 'urgent' || (await isAgent(home, message.from));
}

/**
 * It comes back to the same reader: by a host that can offer it again; else its copy, if that still waits, is brought into sight;
 * else, what was shown before is knocked for.
 */
async function comeBack(
  workspace: Workspace,
  home: Home,
  duty: Duty,
  message: Message | null,
  copy: CopyRecord | null,
  act: Acts,
): Promise<void> {
  const at = new Date(workspace.now()).toISOString();
  if (await isLeftAlone(home, duty, message, workspace.now())) {
    const evidence = { because: 'its reader wants quiet: nothing was shown', returns: duty.returns };
    await home.ledger.record(duty.mailbox, duty.id, { step: 'reconsidered', at, evidence });
    return;
  }
  const evidence = { because: 'it is still owed', returns: duty.returns };
  await home.ledger.record(duty.mailbox, duty.id, { step: 'knocked', at, evidence });
  if (await act.redeliver(duty)) return;
  if (copy?.state === 'stored') {
    await home.spool.raise(duty.mailbox, duty.id);
    return;
  }
  if (copy?.state === 'held' || !message || message.from === HOST_NAME) return;
  const asked = duty.kind === 'obligation' ? 'stands still until this is done' : 'waits for an answer';
  const short = duty.id.slice(0, 8);
  const text = message.body.length > TEXT_SHOWN ? `${message.body.slice(0, TEXT_SHOWN)}…` : message.body;
  await post(
    workspace,
    home,
    {
      to: `@${duty.mailbox}`,
      body: `@${duty.from} ${asked}: message ${short}. Answer with \`parley reply ${short} "…"\`. It said:\n\n${text}`,
      key: keyOf(`return/${duty.mailbox}/${duty.id}/${duty.returns}`),
      thread: duty.id,
    },
    duty.mailbox,
    {
      directedness: 'to_me',
      policy: 'may_respond',
      injection: 'notify',
      reason: copy?.attention.reason ?? 'direct_message',
    },
  );
}
