import { afterEach, describe, expect } from 'bun:test';
import { aModel } from './model/model.ts';
import { call, gate, say } from './model/steps.ts';
import { anOpenCode } from './support/opencode.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const openCode = client('opencode');

afterEach(closeAll);

describe(`a session of OpenCode with the scripted model${openCode.why}`, () => {
  openCode.it('runs a tool and puts its result before the model', async () => {
    const model = opens(aModel([call('bash', { command: 'echo from-a-tool', description: 'say' }), say('all done')]));
    const run = await anOpenCode({ place: await aPlace(), model }).run('CANARY please');
    expect(run).toMatchObject({ code: 0 });
    expect(run.out).toContain('all done');
    expect(model.main).toHaveLength(2);
    expect(model.last.where('from-a-tool')).toContainEqual({
      role: 'user',
      kind: 'tool result',
      text: 'from-a-tool\n',
    });
    // It also asks for a title, with the prompt in it: that is not the agent.
    expect(model.asked.filter((asked) => asked.isSide && asked.has('CANARY'))).not.toEqual([]);
  });

  openCode.it('takes a prompt over HTTP while it works, at its next step', async () => {
    const model = opens(aModel());
    const server = await anOpenCode({ place: await aPlace(), model }).serve();
    const session = await server.session();
    const second = gate();
    model.script(call('bash', { command: 'true', description: 'work' }, second.opened), say('both done'));
    await session.prompt('the first prompt');
    await model.saw('the first prompt');
    await session.prompt('the second prompt');
    second.open();
    expect((await model.saw('the second prompt')).where('the second prompt')).toMatchObject([{ role: 'user' }]);
    await session.idle();
    expect(model.last.count('the first prompt')).toBe(1);
  });

  openCode.it('takes what is typed at its terminal', async () => {
    const model = opens(aModel([say('I have read it')]));
    const terminal = await anOpenCode({ place: await aPlace(), model }).terminal();
    await terminal.submit('CANARY typed\nin two lines');
    expect((await model.saw('CANARY typed\nin two lines')).count('CANARY')).toBe(1);
    await terminal.shows('I have read it');
  });
});
