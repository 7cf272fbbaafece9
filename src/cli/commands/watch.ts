import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../command.ts';
import { notify } from '../notify.ts';
import { watchMail } from '../watching.ts';
import { whole } from '../words.ts';

export default command({
  usage: 'watch',
  about:
    'Shows each message once, what waits now and what comes, until Ctrl-C. It takes nothing: the mail still waits, and the next watch\n' +
    'shows it again. With --take a message is taken when it is printed. (Earlier builds took without it.)\n' +
    'With --exec a command takes each message: it runs by `sh -c`, with BCH_ID, BCH_FROM, BCH_TO, BCH_PRIORITY, BCH_SCOPE, BCH_THREAD,\n' +
    'BCH_TS and BCH_BODY in its environment and the whole message as JSON on stdin. {{body}} means ${BCH_BODY}, and so for the other\n' +
    'fields: write them in double quotes, and never inside code for another shell. The message is settled when the command ends with 0;\n' +
    'otherwise it comes back after 5 s, 10 s, … 5 min. (Of a body above 100,000 bytes BCH_BODY holds the start, and BCH_BODY_CUT is 1.)',
  options: {
    take: { type: 'boolean', help: 'take each message when it is printed' },
    exec: {
      type: 'string',
      value: 'command',
      help: 'run this on each message, and settle it when the command ends with 0',
    },
    peek: { type: 'boolean', help: 'with --exec: leave the messages waiting; the command runs once on each' },
    'urgent-only': { type: 'boolean', help: 'only urgent messages' },
    match: { type: 'string', value: 'context', help: 'your context, for scoped mail' },
    all: { type: 'boolean', help: 'also what waits quietly' },
    notify: { type: 'boolean', help: 'tell the desktop of each message, or ring the bell' },
  },
  words: [0, 0],
  examples: [
    'parley watch --urgent-only --notify',
    'parley watch --take --json',
    'parley watch --exec \'codex exec "$(cat)"\'',
    'parley watch --exec \'./on-mail "{{from}}" "{{body}}"\' --match "$(git remote get-url origin)"',
  ],
  async run(context, values) {
    const who = await context.who('read');
    const peek = isPeek(values);
    const match = values.match ?? context.settings.match;
    await watchMail(who, {
      selection: { match, any: peek && !match, urgentOnly: values['urgent-only'] ?? false, loudOnly: !values.all },
      peek,
      greeting: `watching for mail to @${who.name}${peek ? '; it still waits when shown, --take takes it' : ''} (Ctrl-C stops)`,
      exec: values.exec,
      env: context.env,
      ...(values.notify && { announce: (message) => notify(message, context.env) }),
      render(shown) {
        if (!context.json) return `${whole(shown, context.desk.now(), context.paint)}\n\n`;
        const { message, attention, attempt = 0 } = shown;
        return `${JSON.stringify({ ...message, attention, redelivered: attempt > 0 })}\n`;
      },
    });
  },
});

/** Without --take or --exec nothing is taken. */
function isPeek({ peek, take, exec }: { peek?: boolean; take?: boolean; exec?: string }): boolean {
  if (peek && take) throw new Refusal('invalid_request', '--peek takes nothing and --take does; give one of them');
  return peek ?? !(take || exec !== undefined);
}
