import { aClock } from '../../../test/support/clock.ts';
import { AgentName } from '../../protocol/names.ts';
import { directoryContract } from './directory.contract.ts';
import { MemoryDirectory } from './memory.ts';

directoryContract('memory', async () => {
  const clock = aClock();
  const texts = new Map<AgentName, string>();
  const directory = new MemoryDirectory(clock.now, texts);
  return {
    directory,
    ...clock,
    plant: async (name, text) => void texts.set(AgentName.parse(name), text),
    textOf: (name) => texts.get(AgentName.parse(name)) ?? '',
    close: () => directory.close(),
  };
});
