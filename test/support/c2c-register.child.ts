import { BrokerFiles } from '../../src/storage/c2c/files.ts';
import { readAlias } from '../../src/protocol/c2c.ts';

const [root = '', sessionId = '', alias = '', last] = process.argv.slice(2);
const onStep = (step: string): void => {
  if (step === last) process.kill(process.pid, 'SIGKILL');
};
await new BrokerFiles(root, Date.now, { onStep }).register({ sessionId, alias: readAlias(alias) });
