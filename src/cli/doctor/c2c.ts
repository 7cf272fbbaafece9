import { command } from '../../core/command.ts';
import type { BrokerSession } from '../../protocols/c2c/broker.ts';
import { JSON_FLAG } from '../../protocols/c2c/workspace.ts';
import type { C2c } from '../../protocols/c2c/workspace.ts';
import { existsSync, lstatSync } from 'node:fs';
import { LARGEST_LIST_BYTES } from '../../platform/files.ts';
import { on } from './finding.ts';
import type { Finding } from './finding.ts';
import { examineWays } from './ways.ts';

/** Which way each session gets its mail, and why. `parley doctor` looks at everything else. spec: c2c#ways */
const doctorCommand = command({
  usage: 'doctor [--json]',
  options: { json: JSON_FLAG },
  async run(c2c: C2c, values) {
    const rows = existsSync(c2c.root) ? await c2c.broker.sessions() : [];
    const findings = [...oddInboxes(c2c.root, rows), ...(await examineWays(c2c.env, c2c.cwd, rows))];
    if (values.json) return c2c.sayJson({ broker_root: c2c.root, findings });
    c2c.say(`broker ${c2c.root}${existsSync(c2c.root) ? '' : ' (not there yet)'}`);
    if (findings.length === 0) c2c.say('no client that c2c knows is here, and no session is registered');
    for (const { about, what, next } of findings) c2c.say(`${about}: ${what}${next ? ` → ${next}` : ''}`);
  },
});

/** Files that should be an inbox and cannot be read as one. That session gets no mail; the others do. */
function oddInboxes(root: string, rows: readonly BrokerSession[]): Finding[] {
  return rows.flatMap(({ row: { alias, session_id } }) => {
    const path = `${root}/${session_id}.inbox.json`;
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat || (stat.isFile() && stat.size <= LARGEST_LIST_BYTES)) return [];
    return [on(`session ${alias}`).bad(`${path} is not a regular file, or too large: it gets no mail`, 'move it away')];
  });
}

export const commands = { doctor: doctorCommand };
