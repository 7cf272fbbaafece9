import { quickFolder } from '../../../test/support/quick-home.ts';
import { leaveMessage, openHome } from '../../../test/support/maildir.ts';
import { mailboxesContract } from '../mailboxes.contract.ts';

mailboxesContract('maildir', { root: quickFolder, open: openHome, leave: leaveMessage });
