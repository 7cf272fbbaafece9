import type { ReadMailbox } from '../core/mail/shared.ts';
import type { Who } from '../core/mail/workspace.ts';
import { existsSync, writeFileSync } from 'node:fs';
import { laterMail } from '../core/mail/deliver.ts';
import { MessageId, scopeMatches } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import type { FittedMail } from './fit.ts';
import type { HookMailbox } from './hook.ts';
import type { OfferedTexts } from './hook-offered.ts';
import { mailboxOf, namesIn } from './hook-session.ts';
import type { Mark } from './hook-session.ts';

/** The longest wait for a relay: a hook delays the model's turn. */
const ASK_MS = 1500;

export interface SpoolOptions extends Pick<HookMailbox, 'phrases' | 'write'>, ReadMailbox {
  /** The context that mail must match to be shown in this session. */
  match: string;
  offered: OfferedTexts;
  /** Whether the script that called us can tell apart times within one second. */
  fineTimes: boolean;
}

/**
 * A mailbox of a session in Parley's home: the folders new/, quiet/ and held/ of the spool. Notes in the session's folder which mail the script
 * may take for seen.
 */
export function homeMailbox(options: SpoolOptions): HookMailbox {
  const { who, taker, offered, fineTimes } = options;
  const { session } = offered;
  const noteSeen = (kind: 'seen' | 'sub' | 'turn', folder: Folder, known: ReadonlySet<string>): boolean => {
    const mark: Mark = taker === undefined ? kind : `group.${kind}`;
    return session.noteSeen(mark, `${mailboxOf(who)}/${folder}`, known, fineTimes);
  };
  return {
    ...options,
    session: session.id,
    silentAtStart: true,
    lookAtOnce: () => session.lookAtOnce(),
    skip: () => noteSeen('sub', 'new', new Set(filesIn(who, 'new'))),
    async look(turnBegins) {
      const { mail: loud, looked, unsure } = await loudMail(options);
      const kept = turnBegins ? await keptMail(options) : null;
      const all = [...loud, ...(kept?.mail ?? [])];
      // Mail that joins the turn of a question prevents the capture of its answer, so only urgent mail is shown.
      const mail = session.isMailDelayed(Date.now())
        ? all.filter(({ attention }) => attention.injection === 'immediate')
        : all;
      return {
        who,
        mail,
        nothingLeft() {
          if (unsure || mail.length < all.length) return;
          for (const kind of ['seen', 'sub'] as const) noteSeen(kind, 'new', looked);
          if (kept) noteSeen('turn', 'quiet', kept.looked);
        },
      };
    },
    /** Copies that another reader holds may wait again later: then the script must start us. */
    async lookAgain() {
      if (who.home.remote) askRelayAgain(who);
      const held = filesIn(who, 'held').map(idIn);
      if (held.length === 0) return;
      const copies = await Promise.all(held.map((id) => who.home.journal.copy(who.name, id)));
      session.lookAgain(Math.min(...copies.map((copy) => copy?.until ?? Infinity)));
    },
  };
}

type Folder = 'new' | 'quiet' | 'held';

function filesIn(who: Who, folder: Folder): string[] {
  return namesIn(`${mailboxOf(who)}/${folder}`);
}

function idIn(file: string): MessageId {
  return file.replace(/\.json$/, '') as MessageId;
}

/** The script cannot ask a relay. This file in held/, which is no message, makes the script start us every half minute, and we ask. */
function askRelayAgain(who: Who): void {
  const mark = `${mailboxOf(who)}/held/~relay.json`;
  if (!existsSync(mark)) writeFileSync(mark, '', { mode: 0o600 });
}

/** The copies in new/ for this context, and every file name there. Reads no quiet mail, so its amount costs nothing. */
async function loudMail(options: SpoolOptions): Promise<{ mail: FittedMail[]; looked: Set<string>; unsure: boolean }> {
  const { who } = options;
  await fetchMail(options);
  if (await isLeftInHeld(who)) await who.home.mailboxes.adopt(who.name);
  for (let adopted = false; ; adopted = true) {
    const looked = new Set(filesIn(who, 'new'));
    const found: (FittedMail | Verdict)[] = [];
    for (const file of looked) found.push(await mailIn(options, file));
    // Mail of other programs must be judged first: it may be quiet.
    if (found.includes('unjudged') && !adopted) await who.home.mailboxes.adopt(who.name);
    else return { mail: found.filter((one) => typeof one === 'object'), looked, unsure: found.includes('unsure') };
  }
}

/** The mail that a guard kept for this turn. spec: c2a#loops */
async function keptMail({ who, taker, match }: SpoolOptions): Promise<{ mail: FittedMail[]; looked: Set<string> }> {
  // List the names before the mail: a message that comes in between is not noted as seen, so the next turn shows it.
  const looked = new Set(filesIn(who, 'quiet'));
  const mail: FittedMail[] = [];
  for (const message of looked.size > 0 ? await laterMail(who, match) : []) {
    const copy = message.from === taker ? null : await who.home.journal.copy(who.name, message.id);
    if (copy) mail.push({ message, attention: copy.attention, attempt: copy.attempt });
  }
  return { mail, looked };
}

/** Fetches the mail that waits at a relay for this context. If the relay cannot be reached, the mail on this machine is shown all the same. */
async function fetchMail({ who: { name, home }, match, offered }: SpoolOptions): Promise<void> {
  try {
    await home.remote?.bring(name, (message) => scopeMatches(message.scope, match), ASK_MS);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    offered.deps.complain(error);
  }
}

/** Whether held/ has a copy that waits by the journal. That folder is nearly always empty, so this costs one listing. */
async function isLeftInHeld(who: Who): Promise<boolean> {
  for (const file of filesIn(who, 'held')) {
    if ((await who.home.journal.copy(who.name, idIn(file)))?.state === 'stored') return true;
  }
  return false;
}

/** `unjudged`: the journal has no copy of it yet. `unsure`: the file is no message yet, and another program may still be writing it. */
type Verdict = 'not for us' | 'unjudged' | 'unsure';

async function mailIn(
  { who: { name, home }, taker, match }: SpoolOptions,
  file: string,
): Promise<FittedMail | Verdict> {
  const id = MessageId.safeParse(idIn(file));
  if (!file.endsWith('.json') || !id.success) return 'not for us';
  const waiting = await home.mailboxes.read(name, id.data);
  if (!waiting) return 'unsure';
  if (waiting.quiet || !scopeMatches(waiting.message.scope, match) || waiting.message.from === taker)
    return 'not for us';
  const copy = await home.journal.copy(name, id.data);
  if (!copy) return 'unjudged';
  return { message: waiting.message, attention: copy.attention, attempt: copy.attempt };
}
