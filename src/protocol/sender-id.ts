import type { AgentName, MessageId } from './names.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** `xxxxxxxx-xxxx-4xxx-yxxx-`: the random part. */
const HEAD = 24;

/**
 * A new id that a relay takes from this sender and from nobody else: the last 12 digits are bound to its name. So no sender can
 * choose the id of another's message, be it to overwrite that message or to learn whether it exists. spec: relay#ids
 */
export function newSenderId(from: AgentName): MessageId {
  const head = crypto.randomUUID().slice(0, HEAD);
  return `${head}${tailFor(from, head)}` as MessageId;
}

/** May this sender choose this id? */
export function isSenderId(text: string, from: AgentName): text is MessageId {
  return UUID.test(text) && text.slice(HEAD) === tailFor(from, text.slice(0, HEAD));
}

function tailFor(from: AgentName, head: string): string {
  return new Bun.CryptoHasher('sha256').update(`${from}\n${head}`).digest('hex').slice(0, 12);
}
