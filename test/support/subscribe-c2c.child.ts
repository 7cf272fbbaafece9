import { AgentName, ChannelName } from '../../src/protocol/names.ts';
import { C2cRegistry } from '../../src/storage/directory/c2c-registry.ts';

const [root = '', channel = '', ...names] = process.argv.slice(2);
const directory = new C2cRegistry(root, Date.now);
for (const name of names) await directory.subscribe(AgentName.parse(name), ChannelName.parse(channel));
