// Mail by the messaging socket of the real Claude Code, and the proof in its transcript.
import { afterEach, describe, expect } from 'bun:test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { ClaudeLiveSessions } from '../../src/clients/claude/live.ts';
import { MessageId } from '../../src/core/names.ts';
import type { Attempt, Parcel } from '../../src/core/ports/way-in.ts';
import { within } from '../support/within.ts';
import { aModel } from './model/model.ts';
import { bash, gate, refuse, say, type Step } from './model/steps.ts';
import { aClaude, type ClaudeOptions } from './support/claude.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace } from './support/place.ts';
import { claude as reachedClaude } from './support/reached-claude.ts';
import { aMachine, timesIn } from './support/reached.ts';
import type { Machine } from './support/reached.ts';
import { client } from './support/where.ts';

const claude = client('claude');
const DEADLINE = 200_000;
const NEVER = new AbortController().signal;

afterEach(closeAll);

describe(`mail for a running session of the real Claude Code${claude.why}`, () => {
  claude.it(
    'wakes one that is idle, is proven by the request that had it, and gives the answer of its turn',
    async () => {
      const { model, sends, live, session } = await aSession([say('the answer')]);
      const since = Date.now();
      const mail = aParcel('the build is red');
      const { said } = sends([mail]);
      const asked = await model.saw(mail.text);
      const took = Date.now() - since;
      expect(await said).toMatchObject({ outcome: 'taken', step: 'shown', evidence: { way: 'socket' } });
      expect([asked.where(mail.text)[0]?.role, asked.count(mail.text)]).toEqual(['user', 1]);
      await within(DEADLINE, async () => 'end' in turnIn(await live.proof(session, mail.id, since)));
      expect(await live.proof(session, mail.id, since)).toMatchObject({
        step: 'shown',
        turn: { end: { how: 'done', text: 'the answer' } },
      });
      expect(await live.proof(session, aParcel('another').id, since)).toEqual({ step: 'none', isOver: false });
      noted('idle', took);
    },
  );

  claude.it('reaches one that works after its running tool, and belongs to no turn of its own', async () => {
    const { model, sends, live, session, code, place } = await aSession([
      bash('until test -e go; do sleep 0.1; done'),
      say('done'),
    ]);
    await code.terminal.submit('work');
    await model.saw('work');
    await code.terminal.shows('until test');
    const since = Date.now();
    const mail = aParcel('look at this');
    const { said } = sends([mail]);
    await within(DEADLINE, async () => (await live.proof(session, mail.id, since)).step !== 'none');
    expect(await live.proof(session, mail.id, since)).toMatchObject({ step: 'accepted' });
    expect(model.main).toHaveLength(1);
    writeFileSync(`${place.project}/go`, '');
    const goes = Date.now();
    const asked = await model.saw(mail.text);
    noted('busy, after the tool could end', Date.now() - goes);
    expect(asked.count(mail.text)).toBe(1);
    expect(await said).toMatchObject({ outcome: 'taken', step: 'shown' });
    const proof = await live.proof(session, mail.id, since);
    expect([proof.step, 'turn' in proof]).toEqual(['shown', false]);
  });

  claude.it('takes fifteen in a burst, each once and proven, and more than the client lets in at once', async () => {
    const { model, sends, live, session } = await aSession([]);
    const since = Date.now();
    const mail = Array.from({ length: 15 }, (_, n) => aParcel(`number ${n}`));
    const { said } = sends(mail);
    const more = Array.from({ length: 15 }, (_, n) => aParcel(`and number ${n}`));
    const all = await Promise.all([said, ...more.map((one) => sends([one]).said)]);
    noted('thirty, until all are proven', Date.now() - since);
    expect(all.filter(({ outcome }) => outcome === 'taken')).toHaveLength(16);
    for (const { id, text } of [...mail, ...more]) {
      expect((await live.proof(session, id, since)).step).toBe('shown');
      expect(model.last.count(text)).toBe(1);
    }
  });

  claude.it('leaves a draft as it is, and shows who wrote', async () => {
    const { model, sends, code } = await aSession([say('done')]);
    await code.terminal.type('half a thought');
    await code.terminal.shows('half a thought');
    const mail = { ...aParcel('hello'), from: 'alice' };
    const [, shortBody = ''] = mail.text.split('\n');
    const ended = `${mail.text}\n[parley ab12] end of message`;
    expect(await sends([{ ...mail, text: ended, shortBody }]).said).toMatchObject({ outcome: 'taken', step: 'shown' });
    await code.terminal.shows(`Message from @alice: @alice wrote: “${shortBody}”`);
    expect(model.last.count(shortBody)).toBe(1);
    expect(await code.terminal.screen()).toMatch(/❯.half a thought/);
    expect(model.main.some((asked) => asked.has('half a thought'))).toBe(false);
  });

  claude.it('approves nothing where a dialog is open, and arrives after it', async () => {
    const { model, sends, live, code, place } = await aSession([bash('touch made'), say('done')], {
      permissions: 'ask',
    });
    await code.terminal.submit('make it');
    await code.until('waiting');
    expect(await live.list()).toMatchObject([{ status: 'waiting', waitingFor: 'permission prompt' }]);
    const mail = aParcel('hello');
    const { said } = sends([mail]);
    // As long as a client takes for a message that it shows at once, and more.
    await Bun.sleep(2000);
    expect([model.main.length, await Bun.file(`${place.project}/made`).exists()]).toEqual([1, false]);
    await code.terminal.confirm('Do you want to proceed?');
    expect(await said).toMatchObject({ outcome: 'taken', step: 'shown' });
    expect((await model.saw(mail.text)).count(mail.text)).toBe(1);
  });

  claude.it(
    'stays with a session that asks its user first, with what the user can do, and is not written again',
    async () => {
      const { model, sends, live, session, code } = await aSession([say('done')], { permissions: 'bypass' });
      const since = Date.now();
      const [mail, more] = [aParcel('hello'), aParcel('more')];
      const held = await sends([mail, more]).said;
      expect(held).toMatchObject({
        outcome: 'offered',
        evidence: { because: expect.stringContaining('crossSessionInbound') },
      });
      // It is not written again as long as it is held.
      expect(await sends([mail]).said).toEqual(held);
      const screen = await code.until('waiting').then(() => code.terminal.shows('Deliver this message'));
      expect([screen.includes('(1 held)'), screen.includes('(2 held)')]).toEqual([true, false]);
      expect(await live.proof(session, mail.id, since)).toMatchObject({ step: 'accepted', evidence: { held: true } });
      expect(model.main).toHaveLength(0);
    },
  );

  claude.it('is let in at once where its user has set that', async () => {
    const settings = { crossSessionInbound: 'accept' };
    const { sends } = await aSession([say('done')], { permissions: 'bypass', settings });
    expect(await sends([aParcel('hello')]).said).toMatchObject({ outcome: 'taken', step: 'shown' });
  });

  claude.it('is left where its user takes none', async () => {
    const { sends } = await aSession([], { settings: { crossSessionInbound: 'refuse' } });
    const because = expect.stringContaining('takes no messages');
    expect(await sends([aParcel('hello')]).said).toMatchObject({ outcome: 'left', retry: false, because });
  });

  claude.it('is not shown where no model answered, though the client recorded a request', async () => {
    const { model, live, session, sends, code } = await aSession([say('one')], {
      env: { CLAUDE_CODE_MAX_RETRIES: '1' },
    });
    await code.terminal.submit('first');
    await model.saw('first');
    await code.until('idle');
    await model.close();
    const since = Date.now();
    const mail = aParcel('hello');
    const stop = new AbortController();
    const { said } = sends([mail], stop.signal);
    await code.terminal.shows('API Error');
    await within(DEADLINE, async () => 'trouble' in (await live.proof(session, mail.id, since)));
    stop.abort();
    expect(await said).toMatchObject({ outcome: 'offered' });
    const trouble = expect.stringContaining('API Error');
    await code.until('idle');
    expect(await live.proof(session, mail.id, since)).toMatchObject({ step: 'accepted', trouble, needsTurn: true });
  });

  claude.it('is never said to be shown where the client is killed before its model answers', async () => {
    const never = gate();
    for (const ms of [0, 5, 20, 50, 100, 200]) {
      const { sends, live, session, code } = await aSession([say('never', never.opened)]);
      const since = Date.now();
      const mail = aParcel(`killed after ${ms} ms`);
      const { said } = sends([mail]);
      await Bun.sleep(ms);
      process.kill(code.registered()?.pid ?? 0, 'SIGKILL');
      const { outcome } = await said;
      expect([ms, outcome]).toEqual([ms, expect.stringMatching(/offered|left/)]);
      expect((await live.proof(session, mail.id, since)).step).not.toBe('shown');
      expect(await live.list()).toEqual([]);
      await closeAll();
    }
  });

  for (const moment of ['idle', 'at work'] as const) {
    const title = `is in its conversation once if it is killed while its model is asked, was ${moment}, and goes on without the daemon`;
    claude.it(title, async () => {
      const machine = await aMachine(reachedClaude);
      const [tool, never] = [machine.tool(), gate()];
      const window = await machine.run();
      machine.model.script(...(moment === 'idle' ? [] : [tool.step]), say('never', never.opened));
      if (moment === 'at work') {
        await window.submit('work');
        await tool.begun();
      }
      const id = await machine.send('look at this', { fyi: true });
      if (moment === 'at work') await machine.prepared.has({ id, text: 'look at this' }, machine);
      await tool.finish();
      await machine.model.saw('look at this');
      await inConversation(machine, id);
      await machine.kill();
      await machine.until(id, 'released');
      await machine.killDaemon();
      const again = await machine.run({ args: machine.prepared.resume(machine.session) });
      await again.submit('go on');
      expect(timesIn(await machine.model.saw('go on'), id)).toBe(1);
      await machine.prepared.ready(again);
      await again.submit('and now?');
      await machine.until(id, 'shown');
      expect(timesIn(machine.model.last, id)).toBe(1);
    });
  }

  claude.it(
    'is shown by one short text after a kill, without a prompt and without a second copy, and its answer goes back',
    async () => {
      const machine = await aMachine(reachedClaude);
      await machine.run();
      machine.model.script(say('never', gate().opened), say('It is 8080.'));
      const id = await machine.send('look at this', { fyi: true });
      await machine.model.saw('look at this');
      await machine.prepared.has({ id: id, text: 'look at this' }, machine);
      const again = await machine.killAndResume();
      await machine.until(id, 'shown');
      await machine.prepared.ready(again);
      const { last, main } = machine.model;
      expect([timesIn(last, id), main.length, last.count('and got no answer')]).toEqual([1, 2, 1]);
      expect((await machine.copy(id)).receipts.filter(({ step }) => step === 'knocked')).toHaveLength(1);
    },
  );

  claude.it('comes again where its request failed and its user began another conversation with /clear', async () => {
    const machine = await aMachine(reachedClaude, { steps: [refuse(), refuse(), say('read it')] });
    const window = await machine.run();
    const id = await machine.send('look at this', { fyi: true });
    await machine.until(id, 'accepted');
    await window.submit('/clear');
    await machine.until(id, 'shown');
    expect([timesIn(machine.model.last, id), machine.model.left]).toEqual([1, 0]);
  });

  claude.it('by a hook is proven by the same record, also beside another call', async () => {
    const command = 'grep -q "echo one" && cat "$HOME/said" || true';
    const settings = { hooks: { PostToolUse: [{ hooks: [{ type: 'command', command }] }] } };
    const calls = ['one', 'two'].map((word) => ({
      tool: 'Bash',
      input: { command: `echo ${word}`, description: 'x' },
    }));
    const { live, session, code, model, place } = await aSession([{ calls }, say('done')], { settings });
    const id = MessageId.parse(crypto.randomUUID());
    const short = id.slice(0, 8);
    const text = `[parley ab12] Mail for @me.\n[parley ab12] message ${short} from @bob to me\nhello\n[parley ab12] end of message ${short}`;
    const output = { hookSpecificOutput: { hookEventName: 'PostToolUse', additionalContext: text } };
    writeFileSync(`${place.home}/said`, JSON.stringify(output));
    const since = Date.now();
    await code.terminal.submit('go');
    await model.saw(`message ${short} from`);
    await within(DEADLINE, async () => (await live.proof(session, id, since)).step === 'shown');
  });
});

async function aSession(steps: Step[], options: Partial<ClaudeOptions> = {}) {
  const model = opens(aModel(steps));
  const place = await aPlace();
  const { permissions = 'ask', ...more } = options;
  const program = aClaude({ place, model, permissions, ...more });
  // In auto mode or with a rule a tool runs unasked, and messages are let in.
  const code = await program.interactive(options.permissions ? [] : ['--allowedTools', 'Bash']);
  const live = opens(new ClaudeLiveSessions(program.folder));
  const [session] = await live.list();
  if (!session) throw new Error('the registry has no session');
  const sends = (parcels: Parcel[], signal = NEVER): { said: Promise<Attempt> } => {
    const [way] = live.ways(session);
    return { said: way?.attempt(parcels, signal) ?? Promise.reject(new Error('there is no way')) };
  };
  return { model, place, code, live, session, sends };
}

/** Waits until the client has written down that the conversation has it, and not only its queue: it asks its model a moment before. */
async function inConversation({ place }: Machine, id: string): Promise<void> {
  const folder = `${place.home}/.claude/projects`;
  await within(DEADLINE, async () => {
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.jsonl'));
    const lines = names.flatMap((name) => readFileSync(`${folder}/${name}`, 'utf8').split('\n'));
    return lines.some((line) => line.includes('"parentUuid":') && line.includes(`"msg_id":"${id}"`));
  });
}

function aParcel(text: string): Parcel {
  const id = MessageId.parse(crypto.randomUUID());
  return { id, text: `[parley ab12] message ${id.slice(0, 8)} from @bob\n[${id}] ${text}` };
}

function turnIn(proof: object): object {
  return 'turn' in proof ? (proof.turn as object) : {};
}

/** For people who run these tests to see how long it takes. */
function noted(what: string, ms: number): void {
  if (process.env['PARLEY_TIMES']) console.log(`${what}: ${Math.round(ms)} ms`);
}
