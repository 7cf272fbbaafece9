// Many prompts over many sessions, and a server that is killed among them.
import { afterEach, expect, it } from 'bun:test';
import { ControlRig } from '../support/control-rig.ts';
import { within } from '../support/within.ts';

const SESSIONS = Number(process.env['CONTROL_SESSIONS'] ?? 5);
const PROMPTS = Number(process.env['CONTROL_PROMPTS'] ?? 5);
const KILLS = 3;

let rig: ControlRig | undefined;
afterEach(() => rig?.close());

it('answers every prompt that was stored, into the history, and types none twice [CCC-54, CCC-200]', async () => {
  const names = Array.from({ length: SESSIONS }, (_, at) => `s${at}`);
  const all = SESSIONS * PROMPTS;
  const server = new ControlRig(Object.fromEntries(names.map((name) => [name, {}])));
  rig = server;
  await server.listen();
  // Nobody waits for the answer: the server that would give it is killed.
  const asked = names.flatMap((name) =>
    Array.from({ length: PROMPTS }, (_, at) => {
      const text = `${name} ${at} @@${JSON.stringify({ delay: 300, text: `re: ${name} ${at}` })}@@`;
      return server.ask(name, text).catch(() => 'the server was killed');
    }),
  );
  const sent = (): number => server.files().filter(({ from }) => from === 'api').length;
  await within(60_000, async () => sent() === all);
  for (let kill = 1; kill <= KILLS; kill++) {
    const before = server.claude.prompts().length;
    await within(60_000, async () => server.claude.prompts().length >= Math.min(before + all / (KILLS + 1), all));
    await server.end('SIGKILL');
    await server.listen();
  }
  await Promise.all(asked);
  await within(60_000, async () => ((await server.request({ cmd: 'queue' }))['queue'] as unknown[]).length === 0);
  for (const name of names) {
    const lines = await server.history(name, { after: 0 });
    const replies = new Map(lines.map(({ reply_to: to, text }) => [to, text]));
    const prompts = lines.filter(({ from }) => from === 'api');
    expect(prompts.map(({ id }) => replies.get(id))).toEqual(
      prompts.map(({ text }) => `re: ${text.slice(0, text.indexOf(' @@'))}`),
    );
    expect(prompts).toHaveLength(PROMPTS);
  }
  const typed = server.claude.prompts();
  expect([typed.length, new Set(typed).size]).toEqual([all, all]);
  expect(server.claude.harm()).toEqual([]);
  const lines = server.files();
  expect([lines.length, new Set(lines.map(({ id }) => id)).size]).toEqual([2 * all, 2 * all]);
});
