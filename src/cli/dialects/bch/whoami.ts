import { bchCommand } from './command.ts';

export default bchCommand({
  usage: 'whoami',
  options: {},
  words: [0, 0],
  async run(bch) {
    const { name, home } = await bch.who('read');
    bch.say(`${name} via ${home.far?.url ?? 'local spool'}`);
  },
});
