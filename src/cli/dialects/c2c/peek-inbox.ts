import { readSessionId } from '../../../protocols/c2c/shapes.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { peek } from './peek.ts';

export default c2cCommand({
  usage: 'peek-inbox [--json] [--session-id <id>]',
  options: { json: { ...FLAG, short: 'j' }, 'session-id': { ...TEXT, short: 's' }, 'broker-root': TEXT },
  words: [0, 0],
  async run(given, values) {
    const c2c = given.at(values['broker-root']);
    const session = values['session-id'] === undefined ? c2c.session() : readSessionId(values['session-id']);
    await peek(c2c, session, values.json ?? false);
  },
});
