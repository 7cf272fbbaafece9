import { roomsJson } from '../../../protocols/c2c/sessions.ts';
import { c2cCommand, FLAG } from './command.ts';
import { sayRooms } from './rooms.ts';

export default c2cCommand({
  usage: 'my-rooms [--json]',
  options: { json: { ...FLAG, short: 'j' } },
  words: [0, 0],
  async run(c2c, values) {
    sayRooms(c2c, await roomsJson(c2c.broker, c2c.session()), values.json === true);
  },
});
