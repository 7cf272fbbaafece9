import { StatefileWriter, statefilePath, TROUBLES } from '../../../clients/opencode/statefile.ts';
import type { Trouble } from '../../../clients/opencode/statefile.ts';
import { userHome } from '../../env.ts';
import { writeAll } from '../../terminal.ts';
import { c2cCommand } from './command.ts';

/** `c2c oc-plugin stream-write-statefile`: the state of an OpenCode from stdin to its file, until stdin ends. spec: statefile#stream */
export default c2cCommand({
  usage: 'oc-plugin stream-write-statefile',
  options: {},
  words: [0, 0],
  async run(c2c) {
    const writer = new StatefileWriter(statefilePath({ ...c2c.env, HOME: userHome(c2c.env) }), told());
    // Whoever ends us politely loses nothing: the last state may still wait for its moment.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.once(signal, () => process.exit(writer.end() ? 0 : 1));
    }
    for await (const bytes of Bun.stdin.stream()) writer.take(bytes);
    if (!writer.end()) process.exitCode = 1;
  },
});

/** Says each kind of trouble once. */
function told(): (kind: Trouble) => void {
  const known = new Set<Trouble>();
  return (kind) => {
    if (known.has(kind)) return;
    known.add(kind);
    try {
      writeAll(2, `warning: ${TROUBLES[kind]}\n`);
    } catch {
      // Nobody listens there; the state goes on.
    }
  };
}
