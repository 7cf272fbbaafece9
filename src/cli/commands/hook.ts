import type { Context } from '../context.ts';
import { readFileSync } from 'node:fs';
import { HOOK_CLIENTS, hookClient } from '../../clients/hook-clients.ts';
import { HookEvent } from '../../clients/hook-event.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { command } from '../../core/command.ts';
import { answerEvent } from '../hook-answer.ts';
import { complain } from '../hook-complain.ts';
import { hookLine, scriptText, writeScript } from '../hook-setup.ts';
import { writeAll } from '../../platform/terminal.ts';

const NAMES = HOOK_CLIENTS.map((client) => client.name);

export default command({
  usage: `hook <${NAMES.join('|')}>`,
  about:
    'Puts waiting mail before the model of a client that runs hooks. The client calls it, with the event on stdin; you do not. ' +
    'It prints whole messages, up to 9,000 characters at a time; longer ones it points at. What it prints is settled by the next event of ' +
    'the session if that shows that the model was asked; otherwise it waits again, marked as redelivered. At the start of a session it says nothing. ' +
    'It never makes a hook fail: if something is wrong it says so on stderr, and nothing is taken.\n\n' +
    '`parley install` adds it to the settings of a client; or merge these by hand into what you have there:\n\n' +
    HOOK_CLIENTS.map((client) => client.settings(hookLine(process.env, client.name))).join('\n\n'),
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
        : context.say(`wrote ${script}; what to paste where: parley hook --help`);
    }
    if (!name)
      throw new Refusal(
        'invalid_request',
        `name the client (${NAMES.join(', ')}); what to paste where: parley hook --help`,
      );
    const client = hookClient(name);
    try {
      const event = eventFrom(values.relay !== undefined);
      await answerEvent(context, client, event, {
        as: values.as,
        fineTimes: values.relay === 'fine',
      });
    } catch (error) {
      complain(error);
    }
  },
});

/** The event from stdin; the script has read as much of it as stands on the first line. */
function eventFrom(relayed: boolean): HookEvent {
  const first = relayed ? readFileSync(3, 'utf8') : '';
  const event = parsed(first) ?? parsed(first + readFileSync(0, 'utf8'));
  if (event) return event;
  throw new Refusal('invalid_request', 'the event on stdin is no JSON object; nothing was taken');
}

function parsed(text: string): HookEvent | null {
  try {
    const event = HookEvent.safeParse(JSON.parse(text));
    return event.success ? event.data : null;
  } catch {
    return null;
  }
}
