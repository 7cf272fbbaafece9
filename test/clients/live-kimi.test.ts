// Mail for the real Kimi in a terminal that `parley run kimi` holds: it is in a request to the model, once, and Kimi's own record proves it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import type { Model } from './model/model.ts';
import { bash, call, gate, say } from './model/steps.ts';
import { aKimi } from './support/kimi.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { endAll } from './support/processes.ts';
import { aTerminal } from './support/terminal.ts';
import type { Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('kimi');
const DEADLINE = 200_000;
afterEach(closeAll);

interface Trace {
  copies: { state: string; receipts: { step: string; evidence: { way?: string; record?: string } }[] }[];
}

describe(`parley run kimi${real.why}`, () => {
  real.it('gives an idle Kimi its mail, before its first prompt and after, and sends its answers back', async () => {
    const open = gate();
    const steps = [bash('true'), say('It is 8080.', open.opened), say('It is 9090.')];
    const { model, send, shown, inbox, terminal, settings } = await aWindow({ args: ['--yolo'] }, ...steps);
    for (const [question, answer] of [
      ['Which port?', 'It is 8080.'],
      ['And the other one?', 'It is 9090.'],
    ] as const) {
      const id = await send(question);
      const asked = await model.saw(question);
      // Only `parley install kimi` gives it tools.
      const says = ['Answer with this command: parley reply', 'tool reply'].map((text) => asked.has(text));
      expect([asked.count(question), ...says]).toEqual([1, true, false]);
      const { receipts } = await shown(id);
      expect(receipts.findLast(({ step }) => step === 'shown')?.evidence).toMatchObject({
        way: 'terminal',
        record: expect.stringContaining('wire.jsonl'),
      });
      // Kimi has named its session meanwhile, and its turn goes on.
      open.open();
      await within(DEADLINE, async () => (await inbox()).includes(answer));
      // Kimi draws its screen again, and is read as before.
      await terminal.tmux('resize-window', '-t', terminal.pane, '-x', '90', '-y', '30');
    }
    expect(model.main).toHaveLength(3);
    expect(await terminal.screen()).toContain('It is 9090.');
    expect(settings.before).toBe(settings.now());
  });

  real.it('leaves a draft as it is, and mail comes when the composer is empty again', async () => {
    const { model, terminal, send, trace } = await aWindow(say('hello back'));
    await terminal.type('half a thought');
    await terminal.shows('> half a thought');
    const id = await send('CANARY it is red');
    await Bun.sleep(3000);
    // Nobody holds it: a hook could bring it.
    const { state, receipts } = await trace(id);
    expect([state, receipts.some(({ step }) => step === 'offered')]).toEqual(['stored', false]);
    expect(await terminal.screen()).toContain('> half a thought ');
    expect(model.main).toHaveLength(0);
    await terminal.keys('C-u');
    expect((await model.saw('CANARY')).has('half a thought')).toBe(false);
  });

  real.it('types nothing into a dialog, and mail comes after it', async () => {
    const { model, terminal, send, place } = await aWindow(bash('touch approved'), say('no then'), say('thanks'));
    await terminal.submit('touch it');
    const dialog = await terminal.drawn('Approve once');
    await send('CANARY it is red');
    await Bun.sleep(3000);
    expect([existsSync(`${place.project}/approved`), model.main.length]).toEqual([false, 1]);
    expect(await terminal.screen()).toBe(dialog);
    await terminal.keys('3');
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
    expect(existsSync(`${place.project}/approved`)).toBe(false);
  });

  real.it('types nothing while Kimi works: mail comes at the end of the turn, 15 in a burst once each', async () => {
    const open = gate();
    const { model, terminal, send, shown, parley } = await aWindow(say('done', open.opened));
    await terminal.submit('work');
    await model.request(1);
    await within(DEADLINE, async () => (await parley('agents')).includes('busy; mail comes at the end of its turn'));
    const ids: string[] = [];
    for (let n = 0; n < 15; n += 1) ids.push(await send(`CANARY-${n}-`));
    expect(model.main).toHaveLength(1);
    open.open();
    for (const [n, id] of ids.entries()) {
      await model.saw(`CANARY-${n}-`);
      await shown(id);
    }
    expect(ids.map((_id, n) => model.last.count(`CANARY-${n}-`))).toEqual(ids.map(() => 1));
  });

  real.it('keeps mail for a Kimi that was killed, and gives it to the one that goes on', async () => {
    const never = gate();
    const { model, terminal, send, run, shown, sessionOf } = await aWindow(say('one'), say('never', never.opened));
    const first = await send('CANARY first');
    await shown(first);
    const session = sessionOf();
    await terminal.submit('slow');
    await model.request(2);
    const second = await send('CANARY second');
    await endAll([terminal.pid]);
    const again = await run(['-S', session]);
    await again.shows('│ >');
    await shown(second);
    expect([model.last.count('CANARY first'), model.last.count('CANARY second')]).toEqual([1, 1]);
  });

  real.it(
    'gives mail once to a Kimi that was killed before its model answered: the next request proves it',
    async () => {
      const never = gate();
      const { model, terminal, send, run, shown, trace, sessionOf, code } = await aWindow(say('never', never.opened));
      const id = await send('CANARY it is red');
      await model.saw('CANARY');
      // Kimi writes it down a little later.
      const isKept = (line: string): boolean =>
        line.startsWith('{"type":"context.append_message"') && line.includes('CANARY');
      await within(DEADLINE, async () => code.wires().split('\n').some(isKept));
      await endAll([terminal.pid]);
      const again = await run(['-S', sessionOf()]);
      await again.shows('│ >');
      await within(DEADLINE, async () => (await trace(id)).state === 'held');
      expect(model.main).toHaveLength(1);
      await code.turn(again, 'go on', 'the script has ended');
      expect(model.last.count('CANARY')).toBe(1);
      await shown(id);
    },
  );

  real.it('keeps mail for a Kimi that is left unused, and its folder may have to be trusted first', async () => {
    const { model, terminal, send, trace, run } = await aWindow({ isTrusted: false });
    await terminal.shows('Trust this folder');
    const id = await send('CANARY it is red');
    await Bun.sleep(3000);
    expect(await terminal.screen()).toContain('Trust this folder');
    await terminal.keys('Escape');
    await within(DEADLINE, async () => !(await isThere(terminal)));
    expect(model.main).toHaveLength(0);
    const isWaiting = async (): Promise<boolean> => (await trace(id)).state === 'stored';
    await within(DEADLINE, isWaiting);
    const again = await run([]);
    await again.confirm('Trust this folder');
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
  });
});

describe(`a Kimi that a person opened, after \`parley install kimi\`${real.why}`, () => {
  real.it(
    'gets its mail with the next prompt, its record proves it, and what is owed comes again after a compaction',
    async () => {
      const { model, place, code, send, shown, parley, terminal, sessionOf } = await aWindow(
        { isByHand: true },
        say('seen'),
        say('a summary'),
        say('again'),
      );
      const id = await send('CANARY Is it red?');
      await Bun.sleep(2000);
      expect(model.main).toHaveLength(0);
      await code.turn(terminal, 'hello', 'seen');
      expect((await model.request(1)).count('CANARY')).toBe(1);
      const { receipts } = await shown(id);
      expect(receipts.findLast(({ step }) => step === 'shown')?.evidence).toMatchObject({
        record: expect.stringContaining('wire.jsonl'),
      });
      expect(await parley('agents')).toContain('with your next prompt');
      await terminal.paste('/compact');
      await terminal.shows('> /compact');
      // Kimi may take an Enter that comes at once for a part of what was typed.
      await Bun.sleep(500);
      await terminal.keys('Enter');
      await terminal.shows('Compaction complete');
      // Kimi does not wait for its hook.
      const noted = `${place.home}/.parley/sessions/${sessionOf()}/open/compacted.json`;
      await within(DEADLINE, async () => existsSync(noted));
      await terminal.submit('PROMPT after it');
      expect((await model.saw('PROMPT after it')).has('redelivered: you may have seen it before')).toBe(true);
    },
  );
});

describe(`a Kimi that a person opened, with \`parley watch --once\` in the background${real.why}`, () => {
  real.it('begins a turn when mail comes, and the hook shows it at its end', async () => {
    const open = gate();
    const waiter = { command: 'parley watch --once', run_in_background: true, disable_timeout: true };
    const { model, code, send, shown, trace, terminal } = await aWindow(
      { isByHand: true, args: ['--yolo'] },
      call('Bash', { ...waiter, description: 'wait for mail' }),
      say('armed'),
      say('woken', open.opened),
    );
    await code.turn(terminal, 'wake me when mail comes', 'armed');
    await terminal.shows('1 task running');
    const id = await send('CANARY Is it red?');
    const woken = await model.request(3);
    // What the command says is not in the request: only that it ended.
    expect([woken.has('wait for mail'), woken.has('CANARY')]).toEqual([true, false]);
    expect((await trace(id)).receipts.some(({ step }) => step === 'shown')).toBe(false);
    open.open();
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
    await shown(id);
  });
});

interface WindowOptions {
  /** A person starts Kimi, after `parley install kimi`. */
  isByHand?: boolean;
  isTrusted?: boolean;
  /** Words for Kimi. */
  args?: string[];
}
const OPTIONS = ['isByHand', 'isTrusted', 'args'] as const;
type Steps = Parameters<Model['script']>;

/** `parley run kimi` in a terminal, at its prompt, with the daemon. */
async function aWindow(first?: WindowOptions | Steps[0], ...rest: Steps) {
  const options: WindowOptions = first && OPTIONS.some((name) => name in first) ? (first as WindowOptions) : {};
  const model = opens(aModel(first && options !== first ? [first as Steps[0], ...rest] : rest));
  const place = await aPlace();
  const code = aKimi({ place, model });
  if (options.isTrusted !== false) code.trustProject();
  const program = new Program(place.home, { ...code.env, PARLEY_NO_DAEMON: '' });
  const parley = async (...args: string[]): Promise<string> => {
    const { out, err, code: exit } = await program.withoutTerminal(args, { cwd: place.project });
    if (exit !== 0) throw new Error(`parley ${args.join(' ')} ended with ${exit}: ${err}`);
    return out;
  };
  await parley('init', 'me');
  opens({ close: async () => void (await program.run(['down'])) });
  const bin = PARLEY.slice(0, PARLEY.lastIndexOf('/'));
  const env = { ...code.env, PATH: `${code.env['PATH']}:${bin}`, PARLEY_NO_DAEMON: '' };
  const config = `${code.folder}/config.toml`;
  const settings = { before: readFileSync(config, 'utf8'), now: () => readFileSync(config, 'utf8') };
  const run = (args: string[]): Promise<Terminal> => aTerminal(place, [PARLEY, 'run', 'kimi', ...args], { env });
  if (options.isByHand) await parley('install', 'kimi');
  const terminal = options.isByHand
    ? await aTerminal(place, ['kimi', ...(options.args ?? [])], { env })
    : await run(options.args ?? []);
  if (options.isTrusted !== false) await code.ready(terminal);
  const send = async (text: string, ...more: string[]): Promise<string> => {
    const sent = await parley(
      'send',
      options.isByHand ? '@kimi' : '@kimi.project',
      text,
      '--as',
      'me',
      '--json',
      ...more,
    );
    return (JSON.parse(sent) as { id: string }).id;
  };
  const trace = async (id: string) => {
    // The session that took it has it last.
    const copy = (JSON.parse(await parley('trace', id, '--json')) as Trace).copies.at(-1);
    if (!copy) throw new Error('no copy');
    return copy;
  };
  const shown = async (id: string) => {
    await within(DEADLINE, async () => (await trace(id)).receipts.some(({ step }) => step === 'shown'));
    return trace(id);
  };
  const inbox = (): Promise<string> => parley('inbox', '--as', 'me');
  const sessionOf = (): string => {
    const index = readFileSync(`${code.folder}/session_index.jsonl`, 'utf8').split('\n')[0] ?? '';
    return (JSON.parse(index) as { sessionId: string }).sessionId;
  };
  return {
    parley,
    model,
    place,
    code,
    terminal,
    run,
    send,
    trace,
    shown,
    inbox,
    sessionOf,
    settings,
  };
}

async function isThere(terminal: Terminal): Promise<boolean> {
  return terminal.screen().then(
    () => true,
    () => false,
  );
}
