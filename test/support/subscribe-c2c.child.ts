import { AgentName, ChannelName } from '../../src/core/names.ts';
import { C2cDirectory } from '../../src/protocols/c2c/directory.ts';

const [root = '', channel = '', ...names] = process.argv.slice(2);
const directory = new C2cDirectory(root, Date.now);
for (const name of names) await directory.subscribe(AgentName.parse(name), ChannelName.parse(channel));
