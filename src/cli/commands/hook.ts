import type { Env } from '../../core/env.ts';
import type { Who } from '../../core/mail/workspace.ts';
import { command } from '../../core/command.ts';
import { parleyHome } from '../../platform/env.ts';
import { writeAll } from '../../platform/terminal.ts';
import { Context } from '../context.ts';
import type { ClientName } from '../../clients/client-names.ts';
import { clientNamed, HOOK_CLIENTS, hookClient } from '../../clients/clients.ts';
import type { HookClient } from '../../delivery/client.ts';
import { phrasesFor } from '../../delivery/fit.ts';
import { answerEvent } from '../../delivery/hook.ts';
import type { HookMailbox } from '../../delivery/hook.ts';
import { isNewStart } from '../../delivery/hook-event.ts';
import type { HookEvent } from '../../delivery/hook-event.ts';
import { homeMailbox } from '../../delivery/hook-mailbox.ts';
import { OfferedTexts } from '../../delivery/hook-offered.ts';
import { forgetOldSessions, mailboxOf, HookSessionFolder } from '../../delivery/hook-session.ts';
import { Refusal } from '../../core/refusal.ts';
import { complain, readEvent } from '../../delivery/hook-call.ts';
import { mailboxesOf } from '../../core/mail/shared.ts';
import { sessionWho } from '../session-who.ts';
import { requestFollower } from '../start-follower.ts';
import { contextOf, hookLine, renewScript, scriptText, writeScript } from '../hook-setup.ts';

const NAMES = HOOK_CLIENTS.map((client) => client.name);

export default command({
  usage: `hook <${NAMES.join('|')}>`,
  about:
    'Shows waiting mail to the model of a client that runs hooks. The client runs this, with the event on stdin; you do not. ' +
    'It prints whole messages, up to 9,000 characters at a time; of a longer one it prints how to read it. The next event of the session ' +
    'settles what was printed, if it shows that the model was asked; otherwise the mail waits again, marked as redelivered. ' +
    'At the start of a session it prints nothing. It never makes the client fail: on an error it writes to stderr and takes nothing.\n\n' +
    '`parley install` adds it to the settings of a client. To add it by hand, merge these lines:',
  paste: HOOK_CLIENTS.map((client) => client.settings(hookLine(process.env, client.name))).join('\n\n'),
  options: {
    write: { type: 'boolean', help: 'write the script that the settings above call, and say where it is' },
    'print-script': { type: 'boolean', help: 'print that script' },
    relay: { type: 'string', value: 'times', help: 'set by the script: the event is on descriptor 3; fine or coarse' },
    as: { type: 'string', value: 'agent', help: 'act as this agent' },
  },
  words: [0, 1],
  examples: ['parley hook --write', 'parley hook claude < event.json'],
  async run(context: Context, values, [name]) {
    if (values['print-script']) return writeAll(1, scriptText(context.env));
    if (values.write) {
      const script = writeScript(context.env);
      return context.json
        ? context.sayJson({ script })
        : context.say(`wrote ${script}; the settings to paste: parley hook --help`);
    }
    if (!name)
      throw new Refusal(
        'invalid_request',
        `name the client (${NAMES.join(', ')}); the settings to paste: parley hook --help`,
      );
    const client = hookClient(name);
    try {
      const event = readEvent(values.relay !== undefined);
      await answerHook(context, client, event, { as: values.as, fineTimes: values.relay === 'fine' });
    } catch (error) {
      complain('parley hook', error);
    }
  },
});

export interface Circumstances {
  /** Who the settings of the client say that it is. */
  as: string | undefined;
  /** Can the script that called us tell times apart that lie within one second? */
  fineTimes: boolean;
}

/** Binds the session of this event and says what waits for it. */
export async function answerHook(
  context: Context,
  client: HookClient,
  event: HookEvent,
  { as, fineTimes }: Circumstances,
): Promise<void> {
  const root = parleyHome(context.env);
  const session = HookSessionFolder.open(root, event.session_id);
  if (!session) throw new Refusal('invalid_request', 'the event names no session; nothing was taken');
  const isStart = event.hook_event_name === 'SessionStart';
  if (isStart) forgetOldSessions(root);
  const { who, match } = await readerOf(context, client, event, session, as);
  const mailboxes = mailboxesOf(who);
  const shared = mailboxes.find(({ taker }) => taker !== undefined);
  session.share(shared ? mailboxOf(shared.who) : null);
  const offered = new OfferedTexts(session, {
    readerNamed: async (name) => (name === who.name ? who : agentNamed(context.env, name)),
    recordOf: (name, id, ids, since) =>
      clientNamed(name)?.hookRecord?.({ session: id, env: context.env }, ids, since) ?? null,
    async worksSince(name, id) {
      const now = await clientNamed(name)?.state?.({ session: id, env: context.env }).latest();
      return now?.state === 'busy' ? now.at : null;
    },
    complain: (error) => complain('parley hook', error),
  });
  const phrases: HookMailbox['phrases'] = (reader, mail, now) =>
    phrasesFor({ name: reader, home: who.home }, mail, now);
  const all = mailboxes.map((one) => homeMailbox({ ...one, match, offered, fineTimes, write: writeAll, phrases }));
  await answerEvent(all, client, event);
  if (!isStart) return;
  renewScript(context.env);
  // Only a process that stays can wake this session when it is idle.
  if (clientNamed(client.name)?.live) requestFollower(context.env);
}

/** Whose mail this session gets, and for which context: as it is bound; if it is new or not bound, as its folder says. spec: hook#session */
async function readerOf(
  context: Context,
  client: HookClient,
  event: HookEvent,
  session: HookSessionFolder,
  as: string | undefined,
): Promise<{ who: Who; match: string }> {
  // Codex runs the hooks of every session with the environment of the first one: it says nothing about this one.
  const env =
    client.name === 'codex'
      ? { ...context.env, PARLEY_AGENT: undefined, PARLEY_MATCH: undefined, CODEX_THREAD_ID: undefined }
      : context.env;
  const bound = session.binding();
  // A session that starts is what its folder says today, unless an agent bound it itself.
  const isOutdated = isNewStart(event) && bound?.by !== 'init';
  const known = bound?.agent && !isOutdated && (await agentNamed(env, bound.agent));
  if (known) return { who: known, match: bound.match };
  const cwd = event.cwd ?? context.cwd;
  try {
    const there = new Context(env, cwd, { as, client: client.name });
    const who = await sessionWho(there, client.name as ClientName, 'hook', session.id);
    const match = contextOf(there);
    session.bind({ v: 1, by: client.name, agent: who.name, match, cwd }, mailboxOf(who));
    return { who, match };
  } catch (error) {
    const isLasting = error instanceof Refusal && (error.code === 'no_identity' || error.code === 'bad_config');
    if (isLasting) session.bindToNobody(client.name, cwd);
    throw error;
  }
}

/** Null if there is no such mailbox any more. Needs nothing of the folder at work, whatever its settings say. */
async function agentNamed(env: Env, name: string): Promise<Who | null> {
  try {
    return await new Context(env, '/', { as: name }).who('serve');
  } catch (error) {
    if (error instanceof Refusal && error.code === 'no_identity') return null;
    throw error;
  }
}
