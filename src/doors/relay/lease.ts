import { lease, releaseLease, settleLease } from '../../flow/lease.ts';
import type { Wanted } from '../../flow/lease.ts';
import { isMessageId } from '../../protocol/names.ts';
import type { MessageId } from '../../protocol/names.ts';
import { Disposition, Evidence } from '../../protocol/receipt.ts';
import type { Fields } from './fields.ts';
import { decoded } from './inbox.ts';
import { lookAt } from './lobby.ts';
import { badRequest, Declined, NOT_FOUND } from './phrases.ts';
import { json, SMALL_BODY } from './relay.ts';
import type { Asked, Relay } from './relay.ts';

const MOST = 256;
const DEFAULT_MAX = 32;
const DEFAULT_MS = 30_000;
const LONGEST_MS = 60 * 60 * 1000;
const LONGEST_DELAY_MS = 24 * LONGEST_MS;
/** Evidence is small words, never a body. */
const EVIDENCE_TEXT = 2000;

/** Lends messages to a reader that says later how they ended. spec: relay#leases */
export async function leaseMessages(relay: Relay, c: Asked): Promise<Response> {
  const fields = await relay.fields(c, SMALL_BODY);
  const ms = fields.optionalNumber('ms', 1000, LONGEST_MS) ?? DEFAULT_MS;
  const wanted = wantedIn(fields);
  const { who } = c;
  await who.home.directory.seen(who.name);
  await who.home.spool.adopt(who.name);
  const { owner, until, copies } = await lease(who, wanted, ms);
  // What is not ended in time waits again then.
  if (copies.length > 0) lookAt(c.room, until);
  const messages = copies.map(({ message, attempt }) => ({ message, attempt }));
  return json(c, { lease: owner, until: new Date(until).toISOString(), messages });
}

/** Ends leased messages, or gives them back. Asked again, it answers the same. */
export async function settleMessages(relay: Relay, c: Asked): Promise<Response> {
  const fields = await relay.fields(c, SMALL_BODY);
  const owner = fields.text('lease');
  const ids = idsIn(fields) ?? [];
  const outcome = fields.text('outcome');
  const by = evidenceIn(fields);
  if (outcome !== 'done' && outcome !== 'release') throw badRequest('"outcome" must be "done" or "release"');
  const delayMs = fields.optionalNumber('delayMs', 0, LONGEST_DELAY_MS);
  const { who } = c;
  const settlement = { disposition: dispositionIn(fields), by, keep: fields.optionalFlag('keep') };
  // A reader's own name for itself is never a lease: only those that we gave out can be ended here.
  const isOurs = owner.startsWith('bearer.');
  const over = new Declined(409, 'no longer held under this lease — it ran out or ended otherwise');
  if (!isOurs) throw over;
  if (outcome === 'done') {
    const ended = await settleLease(who, owner, ids, settlement);
    if (ended === null) throw over;
    relay.figures.taken += ended;
  } else {
    if (!(await releaseLease(who, owner, ids, by, delayMs))) throw over;
    if (delayMs) lookAt(c.room, relay.deps.now() + delayMs);
  }
  return json(c, { settled: ids });
}

/** What is proven of a message: for its sender of every copy, for a recipient of its own. spec: relay#trace */
export async function trace(c: Asked): Promise<Response> {
  const id = decoded(c.path);
  const { name, home } = c.who;
  const found = isMessageId(id) ? await home.ledger.trace(id) : null;
  const copies = found?.copies.filter(({ mailbox }) => found.message.from === name || mailbox === name) ?? [];
  if (!found || copies.length === 0) throw new Declined(404, NOT_FOUND);
  return json(c, {
    message: found.message,
    copies: copies.map(({ mailbox, state, attempt, disposition, settledAt, settledBy, receipts }) => ({
      mailbox,
      state,
      attempt,
      disposition,
      settledAt,
      settledBy,
      receipts,
    })),
  });
}

function wantedIn(fields: Fields): Wanted {
  const ids = idsIn(fields);
  if (ids) return { ids };
  return { match: fields.optionalText('match'), max: fields.optionalNumber('max', 1, MOST) ?? DEFAULT_MAX };
}

/** Ids that could be one. The others are nobody's message. */
function idsIn(fields: Fields): MessageId[] | undefined {
  const ids = fields.texts('ids', MOST);
  return ids && [...new Set(ids)].filter(isMessageId);
}

function dispositionIn(fields: Fields): Disposition {
  const text = fields.optionalText('disposition') ?? 'acknowledged';
  const disposition = Disposition.safeParse(text);
  // The other two are no end: whoever still owes something keeps its lease.
  if (disposition.success && text !== 'claimed' && text !== 'deferred') return disposition.data;
  throw badRequest('"disposition" must be responded, acknowledged, ignored, superseded or failed');
}

function evidenceIn(fields: Fields): Evidence {
  const evidence = Evidence.safeParse(fields.values['by'] ?? {});
  if (!evidence.success || JSON.stringify(evidence.data).length > EVIDENCE_TEXT) {
    throw badRequest(`"by" must be an object of short texts, numbers and flags (${EVIDENCE_TEXT} characters in all)`);
  }
  return evidence.data;
}
