import { command } from '../command.ts';
import { isCompiled, LEDGER_FORMAT, MAIN, VERSION } from '../program.ts';

export default command({
  usage: 'version',
  about: 'The version of this program, of the Bun that runs it, and of the ledger format that it writes.',
  options: {},
  words: [0, 0],
  examples: ['parley version', 'parley --version'],
  async run(context) {
    const compiled = isCompiled();
    if (context.json) {
      return context.sayJson({
        version: VERSION,
        bun: Bun.version,
        ledgerFormat: LEDGER_FORMAT,
        compiled,
        path: compiled ? process.execPath : MAIN,
      });
    }
    context.say(
      `parley ${VERSION} (Bun ${Bun.version}, ledger format ${LEDGER_FORMAT}, ${compiled ? 'compiled' : 'from source'})`,
    );
  },
});
