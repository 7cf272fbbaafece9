import { temporaryHome } from '../../../test/support/home.ts';
import { leaveMessage } from '../../../test/support/maildir.ts';
import { openServerHome } from '../../../test/support/server-home.ts';
import { mailboxesContract } from '../mailboxes.contract.ts';

mailboxesContract('exported-maildir', { root: temporaryHome, open: openServerHome, leave: leaveMessage });
