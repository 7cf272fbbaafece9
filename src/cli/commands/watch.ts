import { command } from '../command.ts';
import { notify } from '../notify.ts';
import { watchMail } from '../watching.ts';
import { whole } from '../words.ts';

export default command({
  usage: 'watch',
  about:
    'Waits for mail, prints each message and takes it, until Ctrl-C. What could not be printed still waits.\n' +
    'With --exec a command is run on each message, by `sh -c`, with BCH_ID, BCH_FROM, BCH_TO, BCH_PRIORITY, BCH_SCOPE, BCH_THREAD,\n' +
    'BCH_TS and BCH_BODY in its environment and the whole message as JSON on stdin. {{body}} and its kin stand for ${BCH_BODY}: write\n' +
    'them in double quotes, and never inside code for another shell. The message is settled when the command ends with 0; otherwise\n' +
    'it comes back after 5 s, 10 s, … 5 min. (Of a body above 100,000 bytes BCH_BODY holds the start, and BCH_BODY_CUT is 1.)',
  options: {
    exec: { type: 'string', value: 'command', help: 'run this on each message' },
    peek: { type: 'boolean', help: 'leave the messages waiting; each is shown once' },
    'urgent-only': { type: 'boolean', help: 'only urgent messages' },
    match: { type: 'string', value: 'context', help: 'your context, for scoped mail' },
    all: { type: 'boolean', help: 'also what waits quietly' },
    notify: { type: 'boolean', help: 'tell the desktop of each message, or ring the bell' },
  },
  words: [0, 0],
  examples: [
    'parley watch --peek --urgent-only --notify',
    'parley watch --exec \'codex exec "$(cat)"\'',
    'parley watch --exec \'./on-mail "{{from}}" "{{body}}"\' --match "$(git remote get-url origin)"',
  ],
  async run(context, values) {
    const who = await context.who('read');
    const peek = values.peek ?? false;
    const match = values.match ?? context.settings.match;
    await watchMail(who, {
      selection: { match, any: peek && !match, urgentOnly: values['urgent-only'] ?? false, loudOnly: !values.all },
      peek,
      greeting: `watching for mail to @${who.name}${peek ? ', which stays where it is' : ''} (Ctrl-C stops)`,
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
