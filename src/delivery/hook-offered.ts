import * as v from 'valibot';
import type { Who } from '../core/mail/workspace.ts';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Delivered } from '../core/mail/deliver.ts';
import {
  claimForSession,
  OFFERED_MS,
  putBack,
  putBackPointer,
  settleOffered,
  settleShown,
  takePointed,
} from '../core/mail/offered.ts';
import { takenBy } from '../core/mail/shared.ts';
import { Injection } from '../core/attention/attention.ts';
import { AgentName, MessageId } from '../core/names.ts';
import type { Evidence, Receipt } from '../core/receipt.ts';
import { Schema } from '../core/schema.ts';
import type { Described } from '../core/schema.ts';
import { starterOf } from '../platform/process.ts';
import { isDead, newHolder } from '../platform/holder.ts';
import type { HookClient, HookRecord } from './client.ts';
import type { FittedMail, Piece } from './fit.ts';
import { hasEnded, lastHandover } from './hand-over.ts';
import { isCompaction, isNewStart, isPrompt, momentOf, proofIn, proofUnrecorded } from './hook-event.ts';
import type { HookEvent, Moment, Proof } from './hook-event.ts';
import { namesIn, HookSessionFolder } from './hook-session.ts';
import { shownAndOwed } from './owed-again.ts';

/** A text that a hook printed in a session, until an event or the client's record decides what became of it. */
const OfferedText = new Schema(() =>
  v.object({
    v: v.literal(1),
    agent: AgentName.inner,
    /** Set for a shared mailbox: mail that is proven becomes this agent's. */
    taker: v.exactOptional(AgentName.inner),
    /** The holder of the copies. */
    owner: v.string(),
    /** The hook process that prints the text, and when it began (Unix ms). */
    by: v.string(),
    since: v.number(),
    /** The event at which the text was printed; null until then. */
    printed: v.nullable(v.object({ event: v.string(), prompt: v.nullable(v.string()), tool: v.nullable(v.string()) })),
    /** Messages that are in the text whole. */
    whole: v.array(MessageId.inner),
    /** Messages with a knock or pointer in the text, each with the injection that it had before. */
    signs: v.array(v.object({ id: MessageId.inner, injection: Injection.inner })),
    /** Owed messages that were shown again after a compaction. */
    again: v.array(MessageId.inner),
    /** An event settled the text at this time (Unix ms), before the client's record showed it. */
    settledAt: v.optional(v.number()),
    /** The client was started again with the conversation that has the text. */
    isResumed: v.optional(v.literal(true)),
  }),
);
type OfferedText = Described<typeof OfferedText>;

/** For this long after an event has settled a text, the record may still prove it: Claude Code writes a moment later. */
const LATE_RECORD_MS = 10_000;

/** A compaction after which owed mail is shown again; `shown`: the messages for which that was done. */
const Compacted = new Schema(() => v.object({ v: v.literal(1), shown: v.array(MessageId.inner) }));
const COMPACTED = 'compacted.json';

export interface OfferedDeps {
  /** The agent of this name, or null if it has no mailbox any more. */
  readerNamed(name: AgentName): Promise<Who | null>;
  /** The client's own record of these messages, which were printed after `since` (Unix ms). Null: the client has no record that we can read. */
  recordOf(client: string, session: string, ids: readonly MessageId[], since: number): HookRecord | null;
  /** Since when this session works without a break (Unix ms), as the client says; null if the client does not say it. */
  worksSince(client: string, session: string): Promise<number | null>;
  /** Reports an error. */
  complain(error: unknown): void;
}

/** A message that a hook printed after `since` (Unix ms) and the client's record shows. */
export interface ShownByHook {
  who: Who;
  id: MessageId;
  since: number;
}

/**
 * The texts that were printed in a session and are not proven yet, each in a file `open/<text>.json` of the session's folder. While there is
 * such a file, the script starts us at the next event, and `resolve` settles the text's mail or lets it wait again. spec: hook#proof
 *
 * A text without `printed` belongs to a hook that runs, or to one that died and may have printed it.
 */
export class OfferedTexts {
  readonly #records = new Map<string, HookRecord | null>();

  constructor(
    readonly session: HookSessionFolder,
    readonly deps: OfferedDeps,
  ) {}

  /** Begins a text. `isResumed`: nothing is printed, because the client resumed a conversation that has the text already. */
  begin(agent: AgentName, now: number, taker?: AgentName, isResumed = false) {
    const id = crypto.randomUUID().slice(0, 8);
    const lease = this.#lease(id);
    const owner = newHolder(lease.bearer, lease.process);
    const resumed = isResumed && ({ isResumed } as const);
    const begun = { v: 1, agent, ...takenBy(taker), owner, by: newHolder(false), since: now, ...resumed } as const;
    const nothing = { whole: [], signs: [], again: [] };
    return {
      /** Claims these messages for the session and shows them. The file is written first: if we die, the next event finds it. */
      take: async (who: Who, ids: MessageId[], show: (delivered: Delivered[]) => void, offered: Receipt) => {
        try {
          this.#write(`${id}.json`, { ...begun, printed: null, ...nothing });
        } catch {
          // The disk is full. The mail is shown all the same, and waits again when the client ends, or after an hour.
        }
        return claimForSession(who, ids, lease, show, offered);
      },
      /** Writes down what was printed, and at which event. Removes the file if nothing was. */
      close: (printed: Moment, said: readonly Piece[], again: ReadonlySet<MessageId>): void => {
        if (said.length === 0) return this.#remove(`${id}.json`);
        const text: OfferedText = { ...begun, printed, whole: [], signs: [], again: [] };
        for (const { mail, kind } of said) {
          const { id: message } = mail.message;
          if (again.has(message)) text.again.push(message);
          else if (kind === 'whole') text.whole.push(message);
          else text.signs.push({ id: message, injection: mail.attention.injection });
        }
        this.#write(`${id}.json`, text);
      },
    };
  }

  /**
   * Claims for this session the mail that its conversation has already, because it was given to a client that was killed: the next request has
   * it without being printed again. Returns the other mail.
   */
  async keepKnown(who: Who, mail: FittedMail[], event: HookEvent, receipt: Receipt, taker?: AgentName) {
    const { client } = receipt.evidence;
    const known = new Set<MessageId>();
    for (const { message, attempt } of mail) {
      const before = attempt > 0 ? await lastHandover(who, message.id) : null;
      if (!before || before.to.client !== client || !hasEnded(before.to)) continue;
      const record = this.deps.recordOf(client, this.session.id, [message.id], before.at);
      if (!record?.shown().has(message.id) && !record?.stays(message.id, true)) continue;
      known.add(message.id);
      const text = this.begin(who.name, before.at, taker, true);
      const [copy] = await text.take(who, [message.id], () => {}, receipt);
      text.close(momentOf(event), copy ? [{ mail: copy, kind: 'whole' }] : [], new Set());
    }
    return mail.filter(({ message }) => !known.has(message.id));
  }

  /** Ends every text that this event decides, also in an earlier session of the same client process. */
  async resolve(client: HookClient, event: HookEvent): Promise<void> {
    await this.#resolveOwn(client, event);
    if (client.oneSession && isNewStart(event)) await this.#endEarlier(client, event);
  }

  /** A failure with one text does not stop the others, nor new mail. `isContinued` false: this session has ended. */
  async #resolveOwn(client: HookClient, event: HookEvent, isContinued = true): Promise<void> {
    for (const [name, text] of this.#all()) {
      try {
        const said = await this.#proofOf(client, text, event);
        const shown = await this.#settleProven(name, text, client.name, event.hook_event_name ?? '');
        const isProven = shown?.length === text.whole.length;
        const proof = client.recordDecides && shown ? proofUnrecorded(said, event) : said;
        if (isProven || isRecordLate(text) || proof === 'same moment') continue;
        if (isContinued && proof === 'not asked' && (await this.#stays(name, text))) continue;
        // Remove the file before its mail waits again, or a later event could settle that mail.
        if (proof === 'not asked' || text.settledAt !== undefined) this.#remove(name);
        const who = text.settledAt === undefined ? await this.deps.readerNamed(text.agent) : null;
        if (who && proof === 'asked') await this.#settle(who, text, client, event);
        else if (who) await this.#waitAgain(who, text, event);
        if (who && proof === 'asked' && shown) this.#write(name, { ...text, settledAt: Date.now() });
        else this.#remove(name);
      } catch (error) {
        this.deps.complain(error);
      }
    }
    if (isCompaction(event)) this.#noteCompaction([]);
  }

  /** Claude Code makes one request of several prompts that waited: then a later prompt does not say whether the model was asked after the first. */
  async #proofOf(client: HookClient, text: OfferedText, event: HookEvent): Promise<Proof> {
    if (!text.printed) return isAbandoned(text) ? 'not asked' : 'same moment';
    const proof = proofIn(client, text.printed, event);
    if (proof !== 'not asked' || !isPrompt(text.printed.event) || !isPrompt(event.hook_event_name ?? '')) return proof;
    const since = await this.deps.worksSince(client.name, this.session.id);
    return since !== null && since <= text.since ? 'same moment' : proof;
  }

  /**
   * Whether the conversation has the text, so that the next request has it without being printed again: the last request failed, or the client
   * was killed and started again. After a restart the copies are claimed again, for the client process that runs now.
   */
  async #stays(name: string, text: OfferedText): Promise<boolean> {
    const record = this.#records.get(name);
    const running = this.#client;
    const isRestarted = running !== null && processIn(text.owner) !== running;
    const isResumed = isRestarted || text.isResumed === true;
    const isPlain = text.whole.length > 0 && text.signs.length === 0 && text.again.length === 0;
    if (!record || !isPlain || !text.whole.every((id) => record.stays(id, isResumed))) return false;
    if (!isRestarted) return true;
    const who = await this.deps.readerNamed(text.agent);
    if (!who) return false;
    await putBack(who, text.owner, { by: 'hook', session: this.session.id, because: 'its client was started again' });
    const lease = this.#lease(name);
    const { copies } = await who.home.mailboxes.claim(who.name, text.whole, lease);
    const whole = copies.map(({ message }) => message.id);
    this.#write(name, { ...text, whole, owner: newHolder(lease.bearer, lease.process), isResumed: true });
    return true;
  }

  /** The claim of the session: it ends with the client's process, or after an hour. */
  #lease(name: string) {
    const bearer = `hook-${this.session.id}-${name.replace(/\.json$/, '')}`;
    return { ms: OFFERED_MS, bearer, process: starterOf(process.pid) ?? undefined };
  }

  /** Settles the messages that the client's own record shows by now. Returns them. */
  async settleProven(client: string): Promise<ShownByHook[]> {
    const all = this.#all();
    const names = new Set(all.map(([name]) => name));
    for (const name of this.#records.keys()) if (!names.has(name)) this.#records.delete(name);
    const shown: ShownByHook[] = [];
    for (const [name, text] of all) {
      try {
        shown.push(...((await this.#settleProven(name, text, client, 'record')) ?? []));
      } catch (error) {
        this.deps.complain(error);
      }
    }
    return shown;
  }

  /**
   * Settles the messages of one text that the record shows, and ends the text when all are proven. `proof`: the event that made us look, for
   * the evidence. Null: there is no record, or the text has no whole message.
   */
  async #settleProven(name: string, text: OfferedText, client: string, proof: string): Promise<ShownByHook[] | null> {
    if (text.whole.length === 0) return null;
    const known = this.#records.get(name);
    const record = known === undefined ? this.deps.recordOf(client, this.session.id, text.whole, text.since) : known;
    this.#records.set(name, record);
    const shown = [...(record?.shown() ?? [])];
    if (shown.length === 0) return record?.isThere ? [] : null;
    const who = await this.deps.readerNamed(text.agent);
    if (!who) return null;
    const by = { by: 'hook', client, event: text.printed?.event ?? '', session: this.session.id, proof };
    for (const [id, { evidence }] of shown)
      await settleShown(who, text.owner, id, { ...by, ...evidence }, Date.now(), text.taker);
    if (shown.length === text.whole.length) {
      await takeSigns(who, text, by);
      this.#remove(name);
    }
    return shown.map(([id]) => ({ who, id, since: text.since }));
  }

  /** Ends the texts of the sessions that this client process had before: after `/clear` they get no further event. */
  async #endEarlier(client: HookClient, event: HookEvent): Promise<void> {
    const { home, id } = this.session;
    const own = this.#client;
    for (const name of namesIn(`${home}/sessions`).filter((one) => one !== id)) {
      const session = HookSessionFolder.open(home, name);
      if (!session) continue;
      const earlier = new OfferedTexts(session, this.deps);
      const isOurs = earlier.#all().some(([, { owner }]) => own !== null && processIn(owner) === own);
      if (isOurs) await earlier.#resolveOwn(client, event, false);
    }
  }

  /** The client process that runs this hook, in the form of a holder's name; null if it is not known. */
  get #client(): string | null {
    return processIn(newHolder(this.session.id, starterOf(process.pid) ?? undefined));
  }

  async #settle(who: Who, text: OfferedText, client: HookClient, event: HookEvent): Promise<void> {
    const by = {
      by: 'hook',
      client: client.name,
      event: text.printed?.event ?? '',
      session: this.session.id,
      proof: event.hook_event_name ?? '',
    };
    await settleOffered(who, text.owner, text.whole, by, text.taker);
    await takeSigns(who, text, by);
  }

  async #waitAgain(who: Who, text: OfferedText, event: HookEvent): Promise<void> {
    const because = text.printed
      ? `printed at ${text.printed.event}; at ${event.hook_event_name ?? 'the next event'} nothing shows that the model was asked`
      : 'the hook died; whether it was printed is unknown';
    const evidence = { by: 'hook', session: this.session.id, because };
    await putBack(who, text.owner, evidence);
    for (const { id, injection } of text.signs) await putBackPointer(who, id, injection, evidence);
    if (text.again.length > 0) this.#noteCompaction([]);
  }

  /**
   * The mail that this session was shown and still owes an answer, if a compaction may have removed it from the model's context. Empty at the
   * end of a turn: repeated mail must not start a turn. Leaves out `waiting`, which is shown anyway.
   */
  async owedAgain(
    who: Who,
    client: HookClient,
    event: HookEvent,
    waiting: readonly FittedMail[],
  ): Promise<FittedMail[]> {
    const shown = this.#shownSinceCompaction();
    if (!shown || client.endsTurn.includes(event.hook_event_name ?? '')) return [];
    const left = new Set([...shown, ...waiting.map(({ message }) => message.id)]);
    const mail = (await shownAndOwed(who, this.session.id)).filter(({ message }) => !left.has(message.id));
    if (mail.length === 0) this.#remove(COMPACTED);
    return mail;
  }

  /** Records the messages that were shown again whole; a knock or pointer has its receipt already. The next event shows what did not fit. */
  async noteShownAgain(
    who: Who,
    said: readonly Piece[],
    again: ReadonlySet<MessageId>,
    offered: Receipt,
  ): Promise<void> {
    const shown = this.#shownSinceCompaction();
    const repeated = said.filter(({ mail }) => again.has(mail.message.id));
    if (!shown || repeated.length === 0) return;
    if (repeated.length === again.size) this.#remove(COMPACTED);
    else this.#noteCompaction([...shown, ...repeated.map(({ mail }) => mail.message.id)]);
    const receipt = { ...offered, evidence: { ...offered.evidence, because: 'still owed after a compaction' } };
    for (const { kind, mail } of repeated) {
      if (kind === 'whole') await who.home.journal.record(who.name, mail.message.id, receipt);
    }
  }

  /** The messages that were shown again since the last compaction; null if none are left to show. */
  #shownSinceCompaction(): readonly MessageId[] | null {
    return this.#read(COMPACTED, Compacted)?.shown ?? null;
  }

  #noteCompaction(shown: readonly MessageId[]): void {
    this.#write(COMPACTED, { v: 1, shown });
  }

  #write(name: string, value: unknown): void {
    mkdirSync(`${this.session.folder}/open`, { recursive: true, mode: 0o700 });
    this.session.place(`open/${name}`, (path) => writeFileSync(path, JSON.stringify(value), { mode: 0o600 }));
  }

  #remove(name: string): void {
    rmSync(`${this.session.folder}/open/${name}`, { force: true });
  }

  #all(): [name: string, text: OfferedText][] {
    const names = namesIn(`${this.session.folder}/open`).filter((name) => name.endsWith('.json') && name !== COMPACTED);
    return names.flatMap((name): [string, OfferedText][] => {
      const text = this.#read(name, OfferedText);
      if (text) return [[name, text]];
      // The file cannot be read: its mail waits again when its claim ends.
      this.#remove(name);
      return [];
    });
  }

  #read<S extends Parameters<typeof v.parse>[0]>(name: string, shape: Schema<S>): Described<Schema<S>> | null {
    try {
      const read = shape.safeParse(JSON.parse(readFileSync(`${this.session.folder}/open/${name}`, 'utf8')));
      return read.success ? read.data : null;
    } catch {
      return null;
    }
  }
}

/** A message with a knock or pointer keeps waiting. In a shared mailbox it becomes the taker's, so that no other session gets it. */
async function takeSigns(who: Who, { signs, taker }: OfferedText, by: Evidence): Promise<void> {
  if (taker !== undefined) for (const { id } of signs) await takePointed(who, id, by, taker);
}

/** The client's process in a holder's name; null if none is known. */
function processIn(owner: string): string | null {
  const [process = '', bearer] = owner.split('.bearer-');
  return bearer === undefined ? null : process;
}

function isRecordLate({ settledAt }: OfferedText): boolean {
  return settledAt !== undefined && Math.abs(Date.now() - settledAt) < LATE_RECORD_MS;
}

/** Whether the hook that was printing this text has died or given up. */
function isAbandoned({ by, since }: OfferedText): boolean {
  return isDead(by) || Math.abs(Date.now() - since) > OFFERED_MS;
}
