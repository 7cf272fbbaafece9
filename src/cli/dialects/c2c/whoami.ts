import { c2cCommand, FLAG } from './command.ts';

export default c2cCommand({
  usage: 'whoami [--json]',
  options: { json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, values) {
    const sessionId = c2c.session();
    const alias = (await c2c.broker.session(sessionId))?.row.alias ?? '';
    if (values.json) return c2c.sayJson({ session_id: sessionId, alias });
    c2c.say(
      alias === ''
        ? `session ${sessionId} has no alias; run \`c2c register <alias>\``
        : `${alias} (session ${sessionId})`,
    );
  },
});
