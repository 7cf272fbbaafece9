import { describe, expect, it } from 'bun:test';
import { Program } from '../support/program.ts';

/** Two reviewers, and somebody who asks them. */
async function reviewers(): Promise<Program> {
  const parley = await new Program().init('asker', 'alice', 'bob');
  for (const name of ['alice', 'bob']) await parley.run(['role', 'add', `@${name}`, 'reviewer']);
  return parley;
}

const asked = (parley: Program): Promise<{ id: string }> =>
  parley.json(['send', '@reviewer', 'Is the parser ready?', '--intent', 'question', '--as', 'asker']);

const output = async (parley: Program, ...args: string[]): Promise<string> => (await parley.run(args)).out;

describe('a question to a role', () => {
  it('may be answered, and nobody owes it [C2A-60f] [C2A-96b]', async () => {
    const parley = await reviewers();
    const { id } = await asked(parley);
    for (const name of ['alice', 'bob']) {
      expect(await output(parley, 'inbox', '--as', name)).toContain('may respond');
      expect(await output(parley, 'owe', '--as', name)).toContain('you owe nothing');
      expect(await parley.json<object>(['owe', '--as', name])).toMatchObject({ duties: [], count: 0 });
    }
    expect(await output(parley, 'owe', '--blocking', '--as', 'asker')).toContain('nobody owes you anything');
    expect(await output(parley, 'trace', id, '--as', 'asker')).not.toContain('owes an answer');
  });

  it('is owed by the one who claims it, whose inbox says so too [C2A-109]', async () => {
    const parley = await reviewers();
    const { id } = await asked(parley);
    const chosen = (await parley.run(['claim', id, '--as', 'alice'])).code === 0 ? 'alice' : 'bob';
    if (chosen === 'bob') await parley.run(['claim', id, '--as', 'bob']);
    expect(await output(parley, 'owe', '--as', chosen)).toContain(id.slice(0, 8));
    const inbox = await output(parley, 'inbox', '--as', chosen);
    expect(inbox).toContain('must respond');
    expect(inbox).not.toContain('may respond');
    const event = { session_id: 's', cwd: parley.home, hook_event_name: 'PostToolUse', tool_name: 'Bash' };
    const shown = await parley.run(['hook', 'claude', '--as', chosen], { stdin: JSON.stringify(event) });
    expect(shown.out).toContain('must respond');
    expect(await output(parley, 'read', id, '--as', chosen)).not.toContain('may respond');
    const other = chosen === 'alice' ? 'bob' : 'alice';
    expect(await output(parley, 'owe', '--as', other)).toContain('you owe nothing');
    await parley.run(['reply', id, 'yes', '--as', chosen]);
    expect(await output(parley, 'owe', '--as', chosen)).toContain('you owe nothing');
  });
});

describe('what must not be answered', () => {
  it('reads "read it, do not reply" in a mailbox and in a hook’s text', async () => {
    const parley = await new Program().init('asker', 'alice');
    const { id } = await parley.json<{ id: string }>(['send', '@alice', 'May I go on?', '--as', 'asker']);
    await parley.run(['react', id, 'declined', '--as', 'alice']);
    expect(await output(parley, 'inbox', '--as', 'asker')).toContain('must not respond: read it, do not reply');
    const event = { session_id: 's', cwd: parley.home, hook_event_name: 'PostToolUse', tool_name: 'Bash' };
    const { out } = await parley.run(['hook', 'claude', '--as', 'asker'], { stdin: JSON.stringify(event) });
    expect(out).toContain('read it, do not reply');
  });
});
