import { Shelf } from '../../flow/shelf.ts';
import { takeOne } from '../../flow/take.ts';
import type { Who } from '../../flow/workspace.ts';
import { isMessageId } from '../../protocol/names.ts';
import type { Mail } from '../../storage/ledger/ledger.ts';
import { queryOf } from './guards.ts';
import { badRequest, Declined, notYours } from './phrases.ts';
import { json, jsonText, SMALL_BODY } from './relay.ts';
import type { Asked, Relay } from './relay.ts';

/** An answer above this is sent piece by piece. */
const WHOLE = 1024 * 1024;
const LONGEST_PAGE = 1000;

/** The name in a path must be the caller's own. spec: relay#inbox */
export function ownMailbox(c: Asked): Who {
  const who = c.who;
  const name = decoded(c.path);
  if (name !== who.name) throw new Declined(403, notYours(who.name, name));
  return who;
}

/** The last part of a path. */
export function decoded(path: string): string {
  try {
    return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1));
  } catch (error) {
    throw badRequest(error instanceof Error ? error.message : 'bad escape in the path');
  }
}

/** What waits, in order of arrival. Claims nothing. */
export async function inbox(relay: Relay, c: Asked): Promise<Response> {
  const who = ownMailbox(c);
  const query = queryOf(c.request);
  const after = numberIn(query, 'after', 0, Number.MAX_SAFE_INTEGER) ?? 0;
  const limit = numberIn(query, 'limit', 1, LONGEST_PAGE);
  await who.home.directory.seen(who.name);
  await who.home.spool.adopt(who.name);
  const shelf = new Shelf(who, after);
  if (limit !== undefined) return page(c, shelf, limit);
  const texts = await gather(shelf, Infinity);
  if (shelf.isRead) return jsonText(c, `[${texts.join()}]`);
  return new Response(pieces(shelf, texts, relay.lobby.stay(c.room)), {
    headers: { 'content-type': 'application/json', 'x-request-id': c.id },
  });
}

/** One page. A page of very large messages is shorter than asked for; the header says where to go on. */
async function page(c: Asked, shelf: Shelf, limit: number): Promise<Response> {
  const texts = await gather(shelf, limit);
  // The shelf may be read exactly to its end: then the next page is empty.
  const next = shelf.isRead ? undefined : { 'x-parley-next': String(shelf.after) };
  return jsonText(c, `[${texts.join()}]`, 200, next);
}

async function gather(shelf: Shelf, limit: number): Promise<string[]> {
  const texts: string[] = [];
  let size = 0;
  do {
    const mail: Mail[] = await shelf.next(limit - texts.length);
    for (const { text } of mail) {
      texts.push(text);
      size += text.length;
    }
  } while (!shelf.isRead && texts.length < limit && size < WHOLE);
  return texts;
}

/** A long inbox, read as fast as its reader takes it: it never stands in memory as a whole. */
function pieces(shelf: Shelf, first: string[], leave: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let begun = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const texts = begun ? await nextTexts(shelf, leave) : first;
        const glue = begun && texts.length > 0 ? ',' : '';
        const end = begun && shelf.isRead ? ']' : '';
        controller.enqueue(encoder.encode(`${begun ? '' : '['}${glue}${texts.join()}${end}`));
        begun = true;
        if (!end) return;
        controller.close();
        leave();
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  );
}

async function nextTexts(shelf: Shelf, leave: () => void): Promise<string[]> {
  try {
    return (await shelf.next()).map(({ text }) => text);
  } catch (error) {
    leave();
    throw error;
  }
}

/** Takes one message. Of many racing callers one gets it, the others null. spec: relay#take */
export async function take(relay: Relay, c: Asked): Promise<Response> {
  const fields = await relay.fields(c, SMALL_BODY);
  const { id } = fields.values;
  const keep = fields.optionalFlag('keep');
  const who = c.who;
  // An id that cannot be one is nobody's message: it is never looked for. [BC-C1]
  const message = isMessageId(id) ? await takeOne(who, id, { by: 'relay', agent: who.name }, keep) : null;
  if (message) relay.figures.taken += 1;
  return json(c, { message });
}

function numberIn(query: URLSearchParams, name: string, least: number, most: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw badRequest(`"${name}" must be a whole number from ${least} to ${most}`);
}
