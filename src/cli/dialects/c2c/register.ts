import { readAlias, readSessionId } from '../../../protocols/c2c/shapes.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { clientProcess } from './client-process.ts';
import { c2cCommand, FLAG, TEXT } from './command.ts';
import { enrol } from './enrol.ts';

export default c2cCommand({
  usage: 'register [<alias>] [--session-id <id>] [--json]',
  options: { alias: { ...TEXT, short: 'a' }, 'session-id': { ...TEXT, short: 's' }, json: { ...FLAG, short: 'j' } },
  words: [0, 1],
  async run(c2c, values, [word]) {
    const named = values.alias ?? word;
    const given = values['session-id'];
    const sessionId = given === undefined ? c2c.session() : readSessionId(given);
    const wish = { sessionId, pid: clientProcess(c2c.env), ...(named !== undefined && { alias: readAlias(named) }) };
    const session = await enrol(c2c, wish);
    if (!session) {
      throw new Refusal('no_identity', 'say which alias: `c2c register <alias>` (or set C2C_MCP_AUTO_REGISTER_ALIAS)');
    }
    const { alias, session_id } = session.row;
    const { joined, refused } = session.joined;
    for (const { room, why } of refused) c2c.note(`not in room ${room}: ${why}`);
    if (values.json) return c2c.sayJson({ alias, session_id, ...(joined.length > 0 && { rooms: joined }) });
    c2c.say(`registered ${alias} (session ${session_id})${joined.length > 0 ? `, in ${joined.join(', ')}` : ''}`);
  },
});
