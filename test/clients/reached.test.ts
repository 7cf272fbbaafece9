// The promises to running sessions, on each real client.
import { afterEach } from 'bun:test';
import { closeAll } from './support/opened.ts';
import { REACHED } from './support/reached-clients.ts';
import { itReaches } from './support/reached.contract.ts';

afterEach(closeAll);

for (const running of REACHED) itReaches(running);
