// What a prompt is answered with where Parley's hook brings mail at the end of its turn, with the real clients.
import { afterEach, describe, expect } from 'bun:test';
import { ClaudeSessionDriver } from '../../src/clients/claude/session.ts';
import { CodexSession } from '../../src/clients/codex/session.ts';
import type { SessionDriver, TurnEvent } from '../../src/core/ports/session.ts';
import { TmuxServer } from '../../src/sessions/tmux.ts';
import { Program } from '../support/program.ts';
import { within } from '../support/within.ts';
import { aModel, type Model } from './model/model.ts';
import { gate, say } from './model/steps.ts';
import { aClaude } from './support/claude.ts';
import { aCodex } from './support/codex.ts';
import { closeAll, opens } from './support/opened.ts';
import { aPlace, type Place } from './support/place.ts';
import { client } from './support/where.ts';

const [claude, codex] = [client('claude'), client('codex')];
const DEADLINE = 200_000;
const NEVER = new AbortController().signal;

afterEach(closeAll);

describe(`an ask while mail comes${claude.why}${codex.why}`, () => {
  claude.it('is answered by Claude Code with what it said to the prompt, not to the mail', async () => {
    const model = opens(aModel([]));
    const place = await aPlace();
    const code = aClaude({ place, model });
    const parley = await installed(place, 'claude');
    endsTmux(code.env);
    const command = [code.program, '--dangerously-skip-permissions'];
    const driver = opens(new ClaudeSessionDriver({ ...targetOf(place), client: 'claude', command }, code.env));
    await driver.start();
    await answersThePrompt(driver, model, parley);
  });

  codex.it('is answered by Codex with what it said to the prompt, not to the mail', async () => {
    const model = opens(aModel([]));
    const place = await aPlace();
    const code = aCodex({ place, model });
    const parley = await installed(place, 'codex');
    const terminal = await code.terminal();
    await code.trustHooks(terminal);
    await code.ready(terminal);
    const driver = opens(new CodexSession({ ...targetOf(place), client: 'codex', command: ['codex'] }, code.env));
    await within(DEADLINE, async () => (await driver.state()).status === 'idle');
    await answersThePrompt(driver, model, parley);
  });
});

async function answersThePrompt(driver: SessionDriver, model: Model, parley: Program): Promise<void> {
  const sent = gate();
  model.script(say('the answer', sent.opened), say('thanks for the mail'), say('the next answer'));
  const first = asks(driver, 'what is it?');
  await model.saw('what is it?');
  await parley.run(['send', '@reader', 'CANARY the build is red'], { as: 'other' });
  sent.open();
  expect(await first).toMatchObject({ how: 'done', text: 'the answer' });
  expect(model.last.count('CANARY')).toBe(1);
  expect(await asks(driver, 'and now?')).toMatchObject({ how: 'done', text: 'the next answer' });
}

async function asks(driver: SessionDriver, text: string): Promise<TurnEvent> {
  const prompt = { key: crypto.randomUUID(), text: driver.prepare(text) };
  let since = await driver.place();
  await within(DEADLINE, async () => (await driver.submit(prompt, NEVER)).outcome === 'submitted');
  const seen: TurnEvent[] = [];
  const ended = (): TurnEvent | undefined => {
    const turn = seen.find((event) => driver.isOurs(event, prompt))?.turn;
    return seen.find((event) => event.kind === 'end' && event.turn === turn);
  };
  await within(DEADLINE, async () => {
    const { events, next } = await driver.events(since);
    since = next;
    seen.push(...events);
    return ended() !== undefined;
  });
  return ended() as TurnEvent;
}

/** A home of Parley's in which this client gets mail by its hook. */
async function installed({ home }: Place, name: string): Promise<Program> {
  const parley = await new Program(home).init('reader', 'other');
  const { code, err } = await parley.run(['install', name, '--as', 'reader']);
  if (code !== 0) throw new Error(`parley install ended with ${code}: ${err}`);
  return parley;
}

function endsTmux(env: Record<string, string>): void {
  const server = new TmuxServer({ env });
  opens({ close: async () => void (await server.run(['kill-server']).catch(() => 'it ended before')) });
}

function targetOf({ project }: Place) {
  return { name: 'app', host: 'local', folder: project, conversation: null, startTimeoutMs: DEADLINE };
}
