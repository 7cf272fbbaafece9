import { ChannelWay } from './channel.ts';
import { wayContract } from '../../delivery/way.contract.ts';
import type { OpenWay } from '../../delivery/way.contract.ts';

/** A client that shows what its server tells it, and writes down what it showed, where it keeps such a record. */
async function aClient(keepsRecord: boolean): Promise<OpenWay> {
  const shown: string[] = [];
  let isThere = true;
  const way = new ChannelWay({
    notify({ text }) {
      if (!isThere) throw new Error('EPIPE');
      shown.push(text);
    },
    proof: keepsRecord ? async () => ({ way: 'channel', transcript: 'its own' }) : undefined,
  });
  return {
    way,
    seen: async () => shown.join('\n'),
    typed: async () => '',
    leave: async () => {
      isThere = false;
    },
    comeBack: async () => {
      isThere = true;
    },
    close: async () => {},
  };
}

wayContract('channel, to a client with a transcript', () => aClient(true));
wayContract('channel, to a client without one', () => aClient(false), { proves: 'a notification has no answer' });
