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

/** A hook holds up a model's turn: a relay is waited for this long and no longer. */
const ASK_MS = 1500;

export interface SpoolOptions extends Pick<HookMailbox, 'phrases' | 'write'>, ReadMailbox {
  /** The context that its mail must match. */
  match: string;
  offered: OfferedTexts;
  /** Can the script that called us tell times apart that lie within one second? */
  fineTimes: boolean;
}

/**
 * A mailbox of a session in Parley's home: the folders new/, quiet/ and held/ of the spool. What the script may take for seen is noted
 * in the session's folder.
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
      // Mail that joins the turn of a question keeps its answer from its sender.
      const mail = session.isMailKept(Date.now())
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
    /** Copies that another reader holds may come back: the script must start us again then. */
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

/** The script cannot ask a relay. A name in held/ that is no message's makes it start us again every half minute, and we ask. */
function askRelayAgain(who: Who): void {
  const mark = `${mailboxOf(who)}/held/~relay.json`;
  if (!existsSync(mark)) writeFileSync(mark, '', { mode: 0o600 });
}

/** The copies in new/ for this context, and every name there. Reads nothing that waits quietly, however much that is. */
async function loudMail(options: SpoolOptions): Promise<{ mail: FittedMail[]; looked: Set<string>; unsure: boolean }> {
  const { who } = options;
  await fetchMail(options);
  if (await isLeftInHeld(who)) await who.home.mailboxes.adopt(who.name);
  for (let adopted = false; ; adopted = true) {
    const looked = new Set(filesIn(who, 'new'));
    const found: (FittedMail | Verdict)[] = [];
    for (const file of looked) found.push(await mailIn(options, file));
    // Mail of other programs is judged first: it may belong to the quiet.
    if (found.includes('unjudged') && !adopted) await who.home.mailboxes.adopt(who.name);
    else return { mail: found.filter((one) => typeof one === 'object'), looked, unsure: found.includes('unsure') };
  }
}

/** What a guard kept for this turn. spec: c2a#loops */
async function keptMail({ who, taker, match }: SpoolOptions): Promise<{ mail: FittedMail[]; looked: Set<string> }> {
  // The names first: what comes after them is looked for at the next turn.
  const looked = new Set(filesIn(who, 'quiet'));
  const mail: FittedMail[] = [];
  for (const message of looked.size > 0 ? await laterMail(who, match) : []) {
    const copy = message.from === taker ? null : await who.home.journal.copy(who.name, message.id);
    if (copy) mail.push({ message, attention: copy.attention, attempt: copy.attempt });
  }
  return { mail, looked };
}

/** What waits at a relay for this context is fetched first. If the relay is away, what is here is said all the same. */
async function fetchMail({ who: { name, home }, match, offered }: SpoolOptions): Promise<void> {
  try {
    await home.remote?.bring(name, (message) => scopeMatches(message.scope, match), ASK_MS);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    offered.deps.complain(error);
  }
}

/** Is a copy in held/ that waits by its row? Nearly always that folder is empty, and this costs one listing. */
async function isLeftInHeld(who: Who): Promise<boolean> {
  for (const file of filesIn(who, 'held')) {
    if ((await who.home.journal.copy(who.name, idIn(file)))?.state === 'stored') return true;
  }
  return false;
}

/** `unsure`: the file is no message yet, and another program may still be writing it. */
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
