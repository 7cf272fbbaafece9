import { afterEach, describe, expect } from 'bun:test';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { client } from './support/where.ts';

const claude = client('claude');
afterEach(closeAll);

describe(`a managed Claude Code${claude.why}`, () => {
  claude.it(
    'is woken for mail while it is idle: the sentence is in its next request to the model [C2C-35b, C2C-39]',
    async () => {
      const place = await aPlace();
      const model = opens(aModel([say('I look'), say('I look again')]));
      const code = aClaude({ place, model });
      const env = { ...code.env, C2C_TMUX_SOCKET: 'c2c-test', C2C_MCP_BROKER_ROOT: `${place.home}/repo/broker` };
      const c2c = async (...args: string[]): Promise<string> => {
        const {
          out,
          err,
          code: ended,
        } = await new Program(place.home, env).run(args, { name: 'c2c', cwd: place.project });
        expect([ended, err]).toEqual([0, '']);
        return out;
      };
      await c2c('start', 'claude', '-n', 'ember', '--bin', code.program, '--', '--dangerously-skip-permissions');
      await c2c('send', 'ember', 'CANARY the build is red', '--from', 'bob');
      const asked = await model.saw('mcp__c2c__poll_inbox');
      expect([asked.count('Please fetch them now'), asked.has('CANARY')]).toEqual([1, false]);
      await within(30_000, async () => (await c2c('instances')).includes('wake loop runs'));
      await c2c('stop', 'ember');
    },
  );
});
