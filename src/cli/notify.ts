import { visibleLine } from '../delivery/gate.ts';
import type { Message } from '../protocol/message.ts';
import type { Env } from './env.ts';
import { writeAll } from './terminal.ts';
import { gist } from './words.ts';

/** A desktop without a notification service must not hold up the mail. */
const PATIENCE_MS = 3000;

/** Tells a person at the desktop, or rings the terminal's bell. Never fails, and nothing of the message is ever run. */
export async function notify(message: Message, env: Env): Promise<void> {
  const title = `${message.priority === 'urgent' ? 'Urgent mail' : 'Mail'} from ${visibleLine(message.from, 64)}`;
  const command = notifier(title, gist(message.body, 200), env);
  if (command && (await succeeds(command, env))) return;
  writeAll(2, '\u0007');
}

/** Title and text are arguments, never part of a script. */
function notifier(title: string, text: string, env: Env): string[] | null {
  const path = { PATH: env['PATH'] ?? '' };
  const send = Bun.which('notify-send', path);
  // Notification services read a few tags in the text.
  if (send)
    return [send, '--app-name=parley', '--', title, text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)];
  const script = Bun.which('osascript', path);
  const lines = ['on run argv', 'display notification (item 2 of argv) with title (item 1 of argv)', 'end run'];
  if (!script) return null;
  return [script, ...lines.flatMap((line) => ['-e', line]), title, text];
}

async function succeeds(command: string[], env: Env): Promise<boolean> {
  try {
    const child = Bun.spawn(command, {
      env,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
      timeout: PATIENCE_MS,
    });
    return (await child.exited) === 0;
  } catch {
    return false;
  }
}
