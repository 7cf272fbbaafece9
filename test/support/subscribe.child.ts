// Subscribes an agent to channels, one after the other: `subscribe.child.ts <home> <agent> <#channel>…`
import { AgentName, ChannelName } from '../../src/core/names.ts';
import { FilesDirectory } from '../../src/store/directory/files.ts';

const [, , root = '', agent, ...channels] = process.argv;
const directory = new FilesDirectory(root, Date.now);
for (const channel of channels) await directory.subscribe(AgentName.parse(agent), ChannelName.parse(channel));
