import { shortId } from '../../protocol/names.ts';
import { heldLines } from '../../flow/held.ts';
import { send } from '../../flow/send.ts';
import type { Sent } from '../../flow/send.ts';
import { policyWords } from '../../protocol/attention.ts';
import type { Policy } from '../../protocol/attention.ts';
import { Draft } from '../../protocol/message.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { StorageFailure, storageTrouble } from '../../storage/disk.ts';
import { command } from '../command.ts';
import type { Context } from '../context.ts';
import { deadlineFrom, intentFrom, textFrom } from '../input.ts';

export default command({
  usage: 'send <@agent|@role|#channel> [text …]',
  about:
    'Leaves a message. It is stored durably before this says so. Without text, or with -, the body is read from stdin.',
  options: {
    intent: {
      type: 'string',
      value: 'intent',
      help: 'none, question, assignment, approval, blocker, fyi, status or thanks',
    },
    fyi: { type: 'boolean', help: 'for information: shown like any mail, and nobody owes an answer (--intent fyi)' },
    deadline: { type: 'string', value: 'when', help: 'when an answer is needed: 30m, 2h, 1d or an ISO time' },
    key: { type: 'string', value: 'key', help: 'send once per key: repeating it changes nothing' },
    'first-tried': { type: 'string', value: 'time', help: 'when this key was first tried, for a repeat after trouble' },
    'reply-to': { type: 'string', value: 'id', help: 'the message that this answers' },
    scope: { type: 'string', value: 'repo', help: "only for the recipient's sessions in this context" },
    ref: { type: 'string', multiple: true, value: 'path|url', help: 'something this is about' },
    urgent: { type: 'boolean', help: 'ask for attention sooner' },
    blocks: {
      type: 'string',
      value: 'how',
      help: 'my work stands still until this is dealt with: halted, degraded or none; only I can say that it is',
    },
    'or-else': { type: 'string', value: 'text', help: 'with --blocks: what I will do if nobody answers' },
    delegate: { type: 'string', value: 'agent', help: 'with --blocks: who besides me may say that it is done' },
  },
  words: [1, Infinity],
  examples: [
    'parley send @codex-1 "the build is red on main" --intent blocker',
    'parley send "#backend" "deploy at five" --key deploy-notice-17',
    'parley send @codex-1 "main is green again" --fyi',
    'git diff | parley send @reviewer - --ref src/api.ts',
    'parley send @dba "may I drop the old index?" --blocks halted --or-else "I keep it"',
  ],
  async run(context, values, [to = '', ...text]) {
    if (to.includes(',') || /^[@#]\S+$/.test(text[0] ?? '')) {
      (await import('../recipients.ts')).refuseSeveral(to, text, values);
    }
    if (!/^[@#]/.test(to)) throw noRecipient(to);
    const who = await context.who();
    const draft = parseDraft({
      to,
      body: await textFrom(text, context.desk.bodyLimit),
      priority: values.urgent ? 'urgent' : 'normal',
      scope: values.scope,
      thread: values['reply-to'] && (await threadOf(context, values['reply-to'])),
      refs: values.ref,
      intent: intentFrom(values),
      deadline: deadlineFrom(values.deadline, context.desk.now()),
      key: values.key,
      firstTried: values['first-tried'],
      obligation: obligationFrom(values),
    });
    const sent = await send(context.desk, who.name, draft);
    report(context, sent);
    await warnUnread(context, sent);
  },
});

function noRecipient(word: string): Refusal {
  const shown = word.replace(/\p{Cc}/gu, ' ').slice(0, 40);
  return new Refusal(
    'invalid_request',
    `"${shown}" is no recipient: begin it with @ for an agent or a role, or with # for a channel, in quotes; as in parley send @codex "…"`,
  );
}

/** Says when nobody reads the one mailbox that got this. The message is stored: what fails here must not hide that. */
async function warnUnread(context: Context, { copies, home, message }: Sent): Promise<void> {
  const [only, ...others] = copies;
  if (!only || others.length > 0 || only.mailbox === message.from) return;
  try {
    const { isUnread, unreadAdvice } = await import('../unread.ts');
    const record = await home.directory.get(only.mailbox);
    if (record && isUnread(home, record, context.desk.now())) context.note(await unreadAdvice(only.mailbox));
  } catch (error) {
    context.log('unread', { error: String(error) });
  }
}

/** Few messages say which one they answer: the others pay nothing for it. */
async function threadOf(context: Context, id: string): Promise<string> {
  const { findMessage } = await import('../../flow/desk.ts');
  return (await findMessage(context.desk, id)).id;
}

function obligationFrom(values: { blocks?: string; 'or-else'?: string; delegate?: string }): object | undefined {
  const { blocks, 'or-else': defaultAction, delegate } = values;
  if (blocks !== undefined) return { blocks, defaultAction, delegate: delegate?.replace(/^@/, '') };
  if (defaultAction === undefined && delegate === undefined) return undefined;
  throw new Refusal('invalid_request', '--or-else and --delegate go with --blocks halted, degraded or none');
}

/** The options behind the parts of a draft that have another name. */
const OPTION_FOR: Partial<Record<string, string>> = {
  refs: 'ref',
  thread: 'reply-to',
  firstTried: 'first-tried',
  'obligation.blocks': 'blocks',
  'obligation.defaultAction': 'or-else',
  'obligation.delegate': 'delegate',
};

/** The first complaint about a draft, in one line, by the option that it is about. */
export function parseDraft(input: Record<string, unknown>): Draft {
  const draft = Draft.safeParse(input);
  if (draft.success) return draft.data;
  const part = draft.path.replace(/\.\d+$/, '');
  const isOption = part !== '' && part !== 'to' && part !== 'body';
  throw new Refusal('invalid_request', `${isOption ? `--${OPTION_FOR[part] ?? part}: ` : ''}${draft.why}`);
}

/** What the reader has to do, as its sender reads it. */
function policyOf(policy: Policy): string {
  return policy === 'must_not_respond' ? 'must not respond: it is read, not answered' : policyWords(policy);
}

/** Says what is proven of a send, and no more: stored. */
export function report(context: Context, sent: Sent): void {
  try {
    tell(context, sent);
  } catch (error) {
    const told = storageTrouble(error);
    if (!(told instanceof StorageFailure)) throw error;
    const outcome = `but message ${shortId(sent.message.id)} is stored`;
    throw new StorageFailure('the output could not be written', outcome, 'do not send it again');
  }
}

function tell(context: Context, sent: Sent): void {
  const { message, copies, first, home, trouble } = sent;
  context.log('stored', { id: message.id, home: home.label, copies: copies.length, first });
  if (context.json) {
    const { id, to, ts } = message;
    const held = heldLines(copies, 'command');
    return context.sayJson({
      id,
      to,
      ts,
      step: 'stored',
      first,
      home: home.label,
      copies,
      ...(held.length > 0 && { held }),
      ...(trouble !== undefined && { trouble }),
    });
  }
  // Who got a copy there is for the relay to know.
  if (home.far) {
    const said = `${first ? 'stored' : 'already stored under this key:'} ${shortId(message.id)}`;
    return context.say(`${context.paint.green(said)} at ${home.far.url} for ${message.to}`);
  }
  const [only] = copies;
  const names = copies.map((copy) => `@${copy.mailbox}`).join(', ');
  const policy = copies.length === 1 && only ? ` (${policyOf(only.attention.policy)})` : '';
  const word = first ? 'stored' : 'already stored under this key:';
  const after = trouble === undefined ? '' : `; what follows a send could not be done: ${trouble}`;
  context.say(`${context.paint.green(word)} ${shortId(message.id)} for ${names}${policy}${after}`);
  for (const line of heldLines(copies, 'command')) context.say(line);
}
