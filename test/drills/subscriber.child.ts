// Subscribes an agent to one channel.
import { AgentName, ChannelName } from '../../src/core/names.ts';
import { FilesDirectory } from '../../src/store/directory/files.ts';
import { leave, standReady, thePlan } from './at-work.ts';

const { root, agent, channel } = thePlan() as { root: string; agent: string; channel: string };
const directory = new FilesDirectory(root, Date.now);
await standReady();
await directory.subscribe(AgentName.parse(agent), ChannelName.parse(channel));
leave();
