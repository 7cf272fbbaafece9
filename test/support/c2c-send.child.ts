import { openBroker } from '../../src/protocols/c2c/open-broker.ts';
import { send } from '../../src/core/mail/send.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import { AgentName } from '../../src/core/names.ts';
import type { MessageId } from '../../src/core/names.ts';

/** Sends so many messages, one after the other, and says each body once it is stored. */
const [root = '', from = '', to = '', count = '0'] = process.argv.slice(2);
const broker = openBroker(root);
const workspace = {
  homes: [broker.home],
  now: Date.now,
  newId: () => crypto.randomUUID() as MessageId,
  bodyLimit: BODY_LIMIT,
};
for (let n = 0; n < Number(count); n += 1) {
  const body = `${from} ${n}`;
  await send(workspace, AgentName.parse(from), { to, body, priority: 'normal', intent: 'question' });
  process.stdout.write(`${body}\n`);
}
await broker.close();
