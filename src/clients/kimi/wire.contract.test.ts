import { ScriptedKimi } from '../../../test/support/kimi.ts';
import { wayContract } from '../../delivery/way.contract.ts';
import { WireWay } from './wire.ts';

wayContract('wire, to a kimi of its own', async () => {
  const kimi = new ScriptedKimi();
  const env = { PATH: process.env['PATH'] };
  const order = { command: [kimi.path], workDir: kimi.folder, env, startMs: 20_000, turnMs: 20_000, version: '0' };
  return {
    way: new WireWay(order),
    seen: async () => kimi.prompts.join('\n'),
    typed: async () => '',
    leave: async () => kimi.plan(['fall']),
    comeBack: async () => kimi.plan(['accept']),
    close: async () => {},
  };
});
