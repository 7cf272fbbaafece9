// Mail for the real Gemini CLI in a terminal that `parley run gemini` holds: it is in a request to the model, once, and its own record proves it.
import { afterEach, describe, expect } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { gate, refuse, say, type Step } from './model/steps.ts';
import { aGemini, geminiShell } from './support/gemini.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { aTerminal } from './support/terminal.ts';
import type { Terminal } from './support/terminal.ts';
import { client } from './support/where.ts';

const real = client('gemini');
const DEADLINE = 200_000;
afterEach(closeAll);

describe(`parley run gemini${real.why}`, () => {
  real.it(
    'gives an idle Gemini CLI its mail, before its first prompt and after, and sends its answers back',
    async () => {
      const steps = [geminiShell('true'), say('It is 8080.'), say('It is 9090.')];
      const { model, send, shown, inbox, terminal, settings } = await aWindow(steps, { args: ['--yolo'] });
      for (const [question, answer] of [
        ['Which port?', 'It is 8080.'],
        ['And the other one?', 'It is 9090.'],
      ] as const) {
        const id = await send(question);
        expect((await model.saw(question)).count(question)).toBe(1);
        const { receipts } = await shown(id);
        expect(receipts.findLast(({ step }) => step === 'shown')?.evidence).toMatchObject({
          way: 'terminal',
          record: expect.stringMatching(/chats\/session-.*\.jsonl$/),
        });
        await within(DEADLINE, async () => (await inbox()).includes(answer));
        // It draws its screen again, and is read as before.
        await terminal.tmux('resize-window', '-t', terminal.pane, '-x', '90', '-y', '30');
      }
      expect(model.main).toHaveLength(3);
      expect(settings.before).toBe(settings.now());
    },
  );

  real.it('reaches one that goes on with its latest conversation, whose id nobody named', async () => {
    const { model, code, terminal, place, send, shown } = await aWindow([say('hello'), say('It is 8080.')]);
    await code.submit(terminal, 'hi');
    await terminal.shows('hello');
    await terminal.leave('C-c', 'C-c');
    const env = { ...code.env, PARLEY_NO_DAEMON: '' };
    await code.ready(await aTerminal(place, [PARLEY, 'run', 'gemini', '--resume', 'latest'], { env }));
    const id = await send('Which port?');
    expect((await model.saw('Which port?')).has('hello')).toBe(true);
    await shown(id);
  });

  real.it('leaves a draft as it is, and mail comes when the composer is empty again', async () => {
    const { model, terminal, send, trace } = await aWindow([say('hello back')]);
    await terminal.type('half a thought');
    await terminal.shows('> half a thought');
    const id = await send('CANARY it is red');
    await Bun.sleep(3000);
    const { state, receipts } = await trace(id);
    expect([state, receipts.some(({ step }) => step === 'offered')]).toEqual(['stored', false]);
    expect(await terminal.screen()).toMatch(/> half a thought\s*$/m);
    expect(model.main).toHaveLength(0);
    await terminal.keys('C-u');
    expect((await model.saw('CANARY')).has('half a thought')).toBe(false);
  });

  real.it('types nothing into a dialog, and mail comes after it', async () => {
    const { model, code, terminal, send, place } = await aWindow([geminiShell('touch approved'), say('thanks')]);
    await code.submit(terminal, 'touch it');
    const dialog = await terminal.drawn('Allow once');
    await send('CANARY it is red');
    await Bun.sleep(3000);
    expect([existsSync(`${place.project}/approved`), model.main.length]).toEqual([false, 1]);
    expect(await terminal.screen()).toBe(dialog);
    await terminal.keys('Escape');
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
    expect(existsSync(`${place.project}/approved`)).toBe(false);
  });

  real.it('types nothing while it works: mail comes at the end of the turn, 15 in a burst once each', async () => {
    const open = gate();
    const { model, code, terminal, send, shown } = await aWindow([say('done', open.opened)]);
    await code.submit(terminal, 'work');
    await model.request(1);
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

  real.it('gives mail again by itself whose request failed, and calls it shown only then', async () => {
    const { model, send, shown, trace } = await aWindow([refuse(400), refuse(400), say('now')]);
    const id = await send('CANARY it is red');
    await model.request(2);
    expect((await trace(id)).receipts.some(({ step }) => step === 'shown')).toBe(false);
    await shown(id);
    expect([model.main.length, model.last.count('CANARY it is red')]).toEqual([3, 1]);
  });

  real.it('types nothing while it asks whether the folder is trusted, and mail comes after that', async () => {
    const { model, terminal, send } = await aWindow([say('hello')], { isTrusted: false });
    await terminal.shows('Do you trust the files in this folder?');
    await send('CANARY it is red');
    await Bun.sleep(3000);
    expect(await terminal.screen()).toContain('● 1. Trust folder (project)');
    await terminal.keys('Enter');
    expect((await model.saw('CANARY')).count('CANARY')).toBe(1);
  });
});

describe(`a Gemini CLI that a person opened, after \`parley install gemini\`${real.why}`, () => {
  real.it('gets its mail with the next prompt, and its record proves it', async () => {
    const { model, code, send, shown, parley, terminal } = await aWindow([say('seen')], { isByHand: true });
    const id = await send('CANARY it is red');
    await Bun.sleep(2000);
    expect(model.main).toHaveLength(0);
    await code.submit(terminal, 'hello');
    expect((await model.request(1)).count('CANARY')).toBe(1);
    const { receipts } = await shown(id);
    expect(receipts.findLast(({ step }) => step === 'shown')?.evidence.record).toContain('/chats/session-');
    await within(DEADLINE, async () => (await parley('agents')).includes('with your next prompt'));
  });
});

interface Trace {
  copies: { state: string; receipts: { step: string; evidence: { way?: string; record?: string } }[] }[];
}

interface WindowOptions {
  /** A person starts it, after `parley install gemini`. */
  isByHand?: boolean;
  isTrusted?: boolean;
  /** Words for Gemini CLI. */
  args?: string[];
}

/** `parley run gemini` in a terminal, at its prompt, with the daemon. */
async function aWindow(steps: Step[], { isByHand = false, isTrusted = true, args = [] }: WindowOptions = {}) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const code = aGemini({ place, model, isTrusted });
  const program = new Program(place.home, { ...code.env, PARLEY_NO_DAEMON: '' });
  const parley = async (...words: string[]): Promise<string> => {
    const { out, err, code: exit } = await program.withoutTerminal(words, { cwd: place.project });
    if (exit !== 0) throw new Error(`parley ${words.join(' ')} ended with ${exit}: ${err}`);
    return out;
  };
  await parley('init', 'me');
  opens({ close: async () => void (await program.run(['down'])) });
  const settings = { before: readFileSync(code.settings, 'utf8'), now: () => readFileSync(code.settings, 'utf8') };
  if (isByHand) await parley('install', 'gemini');
  const command = isByHand ? ['gemini', ...args] : [PARLEY, 'run', 'gemini', ...args];
  const terminal: Terminal = await aTerminal(place, command, { env: { ...code.env, PARLEY_NO_DAEMON: '' } });
  if (isTrusted) await code.ready(terminal);
  else await terminal.shows('Do you trust');
  const send = async (text: string): Promise<string> => {
    const to = isByHand ? '@gemini' : '@gemini.project';
    return (JSON.parse(await parley('send', to, text, '--as', 'me', '--json')) as { id: string }).id;
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
  return { parley, model, place, code, terminal, send, trace, shown, inbox, settings };
}
