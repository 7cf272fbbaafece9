import { describe, expect, it } from 'bun:test';
import { Program } from '../support/program.ts';

/** An agent asks ada, a person, for approval. */
async function aRequest(...more: string[]): Promise<Program & { id: string }> {
  const parley = new Program();
  await parley.byPerson(['init', 'ada', '--human', '--owner']);
  await parley.init('codex');
  const words = ['send', '@ada', 'May I drop the table users_old?', '--intent', 'approval', ...more];
  const { id } = await parley.json<{ id: string }>(words, { as: 'codex' });
  return Object.assign(parley, { id });
}

async function told(parley: Program): Promise<string[]> {
  return (await parley.json<{ body: string }[]>(['inbox'], { as: 'codex' })).map(({ body }) => body);
}

describe('a request for approval', () => {
  it('is shown whole to a person at a terminal, who types yes: then the agent is told', async () => {
    const parley = await aRequest();
    const { shown, code } = await parley.atTerminal(['approve', parley.id.slice(0, 8)], 'yes');
    expect(shown).toContain('May I drop the table users_old?');
    expect(shown).toContain(`approved ${parley.id.slice(0, 8)}; @codex gets your answer`);
    expect(code).toBe(0);
    expect(await told(parley)).toEqual(['agree']);
    expect(await parley.json<object[]>(['inbox', '--loud'], { as: 'codex' })).toMatchObject([
      { from: 'ada', quiet: false },
    ]);
    expect((await parley.json<{ duties: object[] }>(['owe'])).duties).toEqual([]);
    expect((await parley.run(['why', parley.id])).out).toContain('agree');
  });

  it('is denied with a reason', async () => {
    const parley = await aRequest();
    expect((await parley.atTerminal(['deny', parley.id, 'not', 'on', 'a', 'Friday'], 'yes')).code).toBe(0);
    expect(await told(parley)).toEqual(['declined · not on a Friday']);
  });

  it('gets no answer if the person does not type yes', async () => {
    const parley = await aRequest();
    const { shown, code } = await parley.atTerminal(['approve', parley.id], 'no');
    expect(code).toBe(64);
    expect(shown).toContain('nothing was sent to @codex');
    expect(await told(parley)).toEqual([]);
  });

  it('is answered by nobody but a person at a terminal, whatever options are given', async () => {
    const parley = await aRequest();
    for (const words of [
      ['approve', parley.id],
      ['approve', parley.id, '--yes'],
      ['deny', parley.id, '--yes'],
    ]) {
      const run = await parley.run(words, { stdin: 'yes\n' });
      expect(run).toMatchObject({ code: 77, out: '' });
      expect(run.err).toBe(
        'parley: Only the user can approve or deny. This process has no terminal. Run it in your own terminal.\n',
      );
    }
    const below = await parley.atTerminal(['approve', parley.id, '--yes'], 'yes', { env: { CLAUDECODE: '1' } });
    expect(below.code).toBe(77);
    expect(below.shown).toContain('A client started this process (CLAUDECODE is set)');
    expect(await told(parley)).toEqual([]);
  });

  it('is not answered by an agent, nor by a reaction in a person’s name', async () => {
    const parley = await aRequest();
    const agent = await parley.atTerminal(['approve', parley.id, '--yes'], 'yes', { as: 'codex' });
    expect(agent).toMatchObject({ code: 77 });
    expect(agent.shown).toContain('@codex is an agent; only a person approves or denies');
    const forged = await parley.run(['react', parley.id, 'agree', '--as', 'ada']);
    expect(forged).toMatchObject({ code: 77, out: '' });
    expect(forged.err).toContain(`a person answers with \`parley approve ${parley.id.slice(0, 8)}\``);
    expect(await told(parley)).toEqual([]);
  });

  it('is answered only by who was asked, and only if it asks for approval', async () => {
    const parley = await aRequest();
    await parley.byPerson(['init', 'ben', '--human']);
    const other = await parley.atTerminal(['approve', parley.id, '--yes'], 'yes', { as: 'ben' });
    expect(other).toMatchObject({ code: 77 });
    const { id } = await parley.json<{ id: string }>(['send', '@ada', 'hello'], { as: 'codex' });
    const plain = await parley.atTerminal(['approve', id, '--yes'], 'yes');
    expect(plain.code).toBe(64);
    expect(plain.shown).toContain('asks for no approval; answer it: parley reply');
  });

  it('can be answered otherwise later, but not twice the same', async () => {
    const parley = await aRequest();
    await parley.atTerminal(['approve', parley.id, '--yes'], '');
    const again = await parley.atTerminal(['approve', parley.id, '--yes'], '');
    expect(again).toMatchObject({ code: 0 });
    expect(again.shown).toContain('you already approved');
    await parley.atTerminal(['deny', parley.id, '--yes'], '');
    await parley.atTerminal(['approve', parley.id, '--yes'], '');
    expect((await told(parley)).sort()).toEqual(['agree', 'agree', 'declined']);
  });

  it('cannot change what the terminal shows', async () => {
    const parley = await aRequest();
    const { id } = await parley.json<{ id: string }>(
      ['send', '@ada', 'delete everything\u001b[2J\u001b[1;1Hmay I read the docs?', '--intent', 'approval'],
      { as: 'codex' },
    );
    const { shown } = await parley.atTerminal(['approve', id], 'no');
    expect(shown).toContain('delete everything');
    expect(shown).not.toContain('\u001b[2J');
  });
});
