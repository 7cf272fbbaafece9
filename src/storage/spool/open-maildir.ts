import { standIn } from '../stand-in.ts';
import type * as Whole from './maildir.ts';
import { MaildirSender } from './maildir-send.ts';
import type { MaildirOptions } from './maildir-send.ts';

/** The mailboxes of one home. A send asks for little of them: the rest is loaded when it is asked for. */
export function openMaildir(options: MaildirOptions): Whole.Maildir {
  return standIn(new MaildirSender(options), () => new (require('./maildir.ts') as typeof Whole).Maildir(options));
}
