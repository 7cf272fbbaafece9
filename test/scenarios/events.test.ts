import { expect, it } from 'bun:test';
import { HostClient } from '../support/host-client.ts';
import { PARLEY, Program } from '../support/program.ts';

/** Ada, a person, and two agents in one channel. */
async function aChannel(): Promise<Program> {
  const parley = new Program();
  await parley.byPerson(['init', 'ada', '--human', '--owner']);
  await parley.init('codex', 'claude');
  for (const name of ['ada', 'codex', 'claude']) await parley.run(['sub', '#dev'], { as: name });
  return parley;
}

const sent = async (parley: Program, to: string, body: string, as: string): Promise<string> =>
  (await parley.json<{ id: string }>(['send', to, body], { as })).id;

/** Codex tries to answer this in the channel, by its tool. */
async function tries(parley: Program, inReplyTo: string): Promise<object | undefined> {
  const client = HostClient.onStdio([PARLEY, 'host', '--stdio'], parley.env);
  await client.initialize();
  await client.done('session/bind', { sessionId: 's', identities: ['codex'] });
  const said = { text: 'me too', idempotencyKey: 'k', visibility: 'thread', directedness: 'ambient', inReplyTo };
  const { error } = await client.ask('chat.send_message', { ...said, target: '#dev' });
  client.close();
  await client.exited;
  return error;
}

it('each event shows policy, proven step and disposition, and how many replies to it were refused; what is for nobody is folded with the reason, and a person raises it to an agent [C2A-D8]', async () => {
  const parley = await aChannel();
  const chatter = [];
  for (const body of ['lunch?', 'the zebra is late', 'main is red'])
    chatter.push(await sent(parley, '#dev', body, 'claude'));
  const [, , red = ''] = chatter;
  const asked = await sent(parley, '@codex', 'is the deploy blocked?', 'ada');
  await parley.run(['reply', asked, 'no'], { as: 'codex' });
  expect(await tries(parley, red)).toBeDefined();

  const { out, err } = await parley.run(['events'], { as: 'codex' });
  expect(out).toMatch(new RegExp(`^${asked.slice(0, 8)} .*must respond · settled · responded`, 'm'));
  expect(out).toMatch(new RegExp(`^3 in #dev addressed to nobody \\(ambient\\), the last ${red.slice(0, 8)}`, 'm'));
  expect(out).not.toContain('zebra');
  expect(err).toContain('parley raise <id> <@agent>');
  const all = (await parley.run(['events', '--all'], { as: 'codex' })).out;
  expect(all).toContain('the zebra is late');
  expect(all).toMatch(
    new RegExp(
      `^${red.slice(0, 8)} .*must not respond: read it, do not reply · ambient · stored · 1 reply refused`,
      'm',
    ),
  );

  expect((await parley.run(['raise', red, '@codex'], { as: 'claude' })).err).toContain('only a person raises an event');
  const words = ['raise', red, '@codex', 'this breaks the release'];
  const raised = await parley.json<{ id: string; copies: object[] }>(words, { as: 'ada' });
  expect(raised.copies).toMatchObject([
    { mailbox: 'codex', attention: { policy: 'must_respond', directedness: 'to_me' } },
  ]);
  expect((await parley.run(words, { as: 'ada' })).out).toContain('before');
  const { duties } = await parley.json<{ duties: { id: string; from: string; message: { body: string } }[] }>(['owe'], {
    as: 'codex',
  });
  expect(duties).toMatchObject([{ id: raised.id, from: 'ada' }]);
  expect(duties[0]?.message.body).toBe('this breaks the release\n\nclaude in #dev:\n> main is red');
});
