import { afterEach, describe, expect, it } from 'bun:test';
import { HostClient } from '../support/host-client.ts';
import { PARLEY, Program } from '../support/program.ts';

const SECRET = 'we will close the Lisbon office in March';

const open: HostClient[] = [];
afterEach(() => open.splice(0).forEach((client) => client.close()));

/** A person tells codex something in private; ada, if she is here, is the owner; claude and codex share a channel. */
async function aTeam(...owner: string[]) {
  const parley = new Program();
  for (const name of owner) await parley.byPerson(['init', name, '--human', '--owner']);
  await parley.byPerson(['init', 'ben', '--human']);
  await parley.init('codex', 'claude');
  for (const name of ['codex', 'claude']) await parley.run(['sub', '#dev'], { as: name });
  await parley.run(['send', '@codex', `between us: ${SECRET}, so plan for it`], { as: 'ben' });
  const client = HostClient.onStdio([PARLEY, 'host', '--stdio'], parley.env);
  open.push(client);
  await client.initialize();
  await client.done('session/bind', { sessionId: 's', identities: ['codex'] });
  const say = (fields: object = {}) =>
    client.ask('chat.send_message', {
      target: '#dev',
      text: `News: ${SECRET.toUpperCase()}!`,
      idempotencyKey: 'k',
      visibility: 'channel',
      directedness: 'ambient',
      ...fields,
    });
  const read = async (as: string) =>
    (await parley.json<{ id: string; body: string }[]>(['inbox'], { as })).map(({ body }) => body);
  const requests = async () => parley.json<{ id: string; body: string; parley?: object }[]>(['inbox'], { as: 'ada' });
  return { parley, say, read, requests };
}

describe('what an agent was told in private', () => {
  it('is said to others only after the owner’s yes, which says it once [C2A-171]', async () => {
    const { parley, say, read, requests } = await aTeam('ada');
    expect((await say()).error).toMatchObject({
      data: { refusal: 'against_policy' },
      message: expect.stringContaining('@ada is asked'),
    });
    expect((await say()).error?.message).toContain('has not answered yet');
    expect(await read('claude')).toEqual([]);
    const [request, ...more] = await requests();
    expect(more).toEqual([]);
    expect(request?.body).toContain('LISBON');
    const { shown, code } = await parley.atTerminal(['approve', request?.id ?? ''], 'yes');
    expect(code).toBe(0);
    expect(shown).toContain('#dev');
    expect(await read('claude')).toEqual([`News: ${SECRET.toUpperCase()}!`]);
    expect((await say()).result).toMatchObject({ first: false });
    expect(await read('claude')).toHaveLength(1);
  });

  it('is never said to others after a no [C2A-171]', async () => {
    const { parley, say, read, requests } = await aTeam('ada');
    await say();
    const [request] = await requests();
    expect((await parley.atTerminal(['deny', request?.id ?? ''], 'yes')).code).toBe(0);
    expect((await say()).error?.message).toContain('@ada said no');
    expect(await read('claude')).toEqual([]);
  });

  it('is not said where nobody can be asked, and who becomes the owner is told [C2A-171]', async () => {
    const { parley, say, read, requests } = await aTeam();
    expect((await say()).error?.message).toContain('there is no owner');
    expect(await read('claude')).toEqual([]);
    await parley.byPerson(['init', 'ada', '--human', '--owner']);
    expect((await requests())[0]?.body).toContain('@codex would say to #dev what @ben told it in private');
    expect((await say()).error?.message).toContain('@ada is asked');
  });

  it('may be said to who told it and to the owner, and anything else to everybody', async () => {
    const { say, read } = await aTeam('ada');
    const dm = { visibility: 'dm', directedness: 'to_me' };
    expect((await say({ ...dm, target: '@ben', idempotencyKey: 'a' })).error).toBeUndefined();
    expect((await say({ ...dm, target: '@ada', idempotencyKey: 'b' })).error).toBeUndefined();
    expect((await say({ text: 'the tests of the parser are green again', idempotencyKey: 'c' })).error).toBeUndefined();
    expect(await read('claude')).toEqual(['the tests of the parser are green again']);
  });
});
