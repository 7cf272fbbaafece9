import { AgentName } from '../../src/core/names.ts';
import { FilesDirectory } from '../../src/store/directory/files.ts';
import { temporaryHome } from '../support/home.ts';
import { Faults } from './drill.ts';
import type { Drill } from './drill.ts';
import { startChild } from './child.ts';

/** Many processes change one record at once. */
export const subscribes: Drill = {
  name: 'twenty processes subscribe at once',
  async run(long) {
    const faults = new Faults();
    const rounds = long ? 5 : 1;
    let kept = 0;
    for (let round = 0; round < rounds; round += 1) {
      const root = temporaryHome();
      const directory = new FilesDirectory(root, Date.now);
      const agent = AgentName.parse('bob');
      await directory.register(agent, 'agent');
      const children = Array.from({ length: 20 }, (_, n) =>
        startChild('subscriber.child.ts', { root, agent, channel: `#channel-${n}` }),
      );
      await Promise.all(children.map((child) => child.ready));
      for (const child of children) child.go();
      await Promise.all(children.map((child) => child.ended));
      const now = (await directory.get(agent))?.subscriptions.length ?? 0;
      faults.expect(now === 20, `${now} of 20 were kept`);
      kept += now;
    }
    return { counts: { rounds, subscribed: rounds * 20, kept }, faults: faults.found };
  },
};
