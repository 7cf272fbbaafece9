import { Broker } from '../../src/protocols/c2c/broker.ts';
import { readAlias } from '../../src/protocols/c2c/shapes.ts';

const [root = '', sessionId = '', alias = '', last] = process.argv.slice(2);
const onStep = (step: string): void => {
  if (step === last) process.kill(process.pid, 'SIGKILL');
};
await new Broker(root, Date.now, undefined, onStep).register({ sessionId, alias: readAlias(alias) });
