import { openBrokerHome, leaveMessage } from '../../../test/support/c2c-broker.ts';
import { quickFolder } from '../../../test/support/quick-home.ts';
import { mailboxesContract } from '../../store/mailboxes.contract.ts';

mailboxesContract('c2c-broker', { root: quickFolder, open: openBrokerHome, leave: leaveMessage });
