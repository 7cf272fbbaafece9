import { describe, expect, it } from 'bun:test';
import { McpClient } from '../support/mcp.ts';
import { Hooks } from '../support/hooks.ts';
import { PARLEY, Program } from '../support/program.ts';

describe('parley send with two recipients before the text', () => {
  const CASES: [words: string[], lines: string][] = [
    [
      ['@bob', '@eve', 'the build is red', '--urgent', '--key', 'k1'],
      'parley send @bob "the build is red" --urgent && parley send @eve "the build is red" --urgent; ' +
        'if @eve is text: parley send @bob "@eve the build is red" --urgent',
    ],
    [['@bob,@eve', 'hi'], 'parley send @bob "hi" && parley send @eve "hi"'],
    [
      ['@bob,', '@eve', 'hi'],
      'parley send @bob "hi" && parley send @eve "hi"; if @eve is text: parley send @bob "@eve hi"',
    ],
    [
      ['@bob', '#dev', '@eve', '$HOME'],
      `parley send @bob '$HOME' && parley send "#dev" '$HOME' && parley send @eve '$HOME'; ` +
        `if #dev @eve is text: parley send @bob '#dev @eve $HOME'`,
    ],
    [
      ['@bob', '@eve'],
      'parley send @bob "…" && parley send @eve "…"; if @eve is text: printf %s "@eve" | parley send @bob -',
    ],
  ];
  it.each(CASES)('%j is refused with the lines to type', async (words, lines) => {
    const program = await new Program().init('alice', 'bob', 'eve');
    expect(await program.run(['send', ...words])).toEqual({
      out: '',
      err: `parley: a message has one recipient; to write to each, type: ${lines}\n`,
      code: 64,
    });
    for (const as of ['bob', 'eve']) expect((await program.run(['inbox'], { as })).out).toBe('inbox empty\n');
  });

  it('gives lines that work in a shell', async () => {
    const program = await new Program().init('alice', 'bob', 'eve');
    const { err } = await program.run(['send', '@bob', '@eve', `it's "$HOME"`, '--fyi']);
    const [, line = ''] = /type: (.*); if/.exec(err) ?? [];
    const script = line.replaceAll('parley send', `"${PARLEY}" send`);
    const child = Bun.spawn(['sh', '-c', script], { env: program.env, cwd: program.home, stdout: 'ignore' });
    expect(await child.exited).toBe(0);
    for (const as of ['bob', 'eve']) {
      expect((await program.json<{ body: string }[]>(['inbox'], { as })).map(({ body }) => body)).toEqual([
        `it's "$HOME"`,
      ]);
    }
  });

  it('takes a quoted text that begins with a name', async () => {
    const program = await new Program().init('alice', 'bob');
    expect((await program.run(['send', '@bob', '@eve can you look?'])).code).toBe(0);
  });
});

describe('a - for the text', () => {
  it.each([[['send', '@bob', '-', 'more', 'text']], [['send', '@bob', 'see', '-']]])(
    'reads stdin, so %j is refused in one line',
    async (args) => {
      const program = await new Program().init('alice', 'bob');
      const { err, code } = await program.run(args, { stdin: 'from stdin' });
      expect(err).toBe(
        'parley: - reads the text from stdin, so leave out the other words; to send a - as text, put the whole text in quotes\n',
      );
      expect(code).toBe(64);
      expect((await program.run(['inbox'], { as: 'bob' })).out).toBe('inbox empty\n');
      expect((await program.run(['send', '@bob', 'this', '-', 'that'])).code).toBe(0);
    },
  );
});

describe('an answer to one’s own message', () => {
  it('is stored, with a warning that names the line for the other recipient', async () => {
    const program = await new Program().init('alice', 'bob');
    const { id } = await program.json<{ id: string }>(['send', '@bob', 'is it safe?']);
    const short = id.slice(0, 8);
    const { out, err } = await program.run(['reply', short, 'I mean: today']);
    expect(out).toMatch(/^stored [0-9a-f]{8} for @alice /);
    expect(err).toBe(
      `warning: ${short} is your own message, so this answer went to you. To write to @bob: parley send @bob "…" --reply-to ${short}\n`,
    );
  });
});

describe('a text that says nothing', () => {
  const EMPTY = 'parley: the text is empty; give it on the command line, or pipe it in\n';
  it.each(['', '   ', ' \n\t\n', '\u200b\ufeff'])('%j is refused in one line, as a word and on stdin', async (text) => {
    const program = await new Program().init('alice', 'bob');
    const { id } = await program.json<{ id: string }>(['send', '@bob', 'a question?']);
    const refused = { out: '', err: EMPTY, code: 64 };
    expect(await program.run(['send', '@bob', text])).toEqual(refused);
    expect(await program.run(['send', '@bob', '-'], { stdin: text })).toEqual(refused);
    expect(await program.run(['send', '@bob'], { stdin: text })).toEqual(refused);
    expect(await program.run(['reply', id, text], { as: 'bob' })).toEqual(refused);
    expect(await program.json<unknown[]>(['inbox'], { as: 'bob' })).toHaveLength(1);
  });

  it('is refused by the tool too', async () => {
    const program = await new Program().init('alice', 'bob');
    const client = new McpClient(program, ['--as', 'alice']);
    await client.initialize();
    expect(await client.call('send', { to: '@bob', text: ' \n' })).toEqual({
      text: 'text is empty: write what you want to say',
      isError: true,
    });
    await client.end();
  });
});

describe('parley send --fyi', () => {
  it('is shown by the hook and listed in the inbox like any mail, and owes nothing', async () => {
    const hooks = await new Hooks().with('bob', 'alice');
    const program = new Program(hooks.user);
    await program.run(['send', '@bob', 'is main green? it is again', '--fyi'], { as: 'alice' });
    expect((await program.run(['inbox'], { as: 'bob' })).out).toContain('is main green? it is again');
    expect((await program.run(['owe'], { as: 'bob' })).out).toBe('you owe nothing\n');
    expect(await hooks.said()).toContain('is main green? it is again');
    expect((await program.run(['owe'], { as: 'bob' })).out).toBe('you owe nothing\n');
  });

  it('reaches every member of a role, and none of them owes an answer', async () => {
    const program = await new Program().init('alice', 'bob', 'eve');
    for (const name of ['bob', 'eve']) await program.run(['role', 'add', `@${name}`, 'dev']);
    await program.run(['send', '@dev', 'main is green again', '--fyi']);
    for (const as of ['bob', 'eve']) {
      expect((await program.run(['inbox', '--loud'], { as })).out).toContain('main is green again');
      expect((await program.run(['owe'], { as })).out).toBe('you owe nothing\n');
    }
  });

  it('is the same as --intent fyi, and is refused beside another intent', async () => {
    const program = await new Program().init('alice', 'bob');
    await program.run(['send', '@bob', 'green', '--fyi', '--intent', 'fyi']);
    expect(await program.json<unknown[]>(['inbox'], { as: 'bob' })).toMatchObject([{ parley: { intent: 'fyi' } }]);
    expect(await program.run(['send', '@bob', 'green?', '--fyi', '--intent', 'question'])).toEqual({
      out: '',
      err: 'parley: --fyi means --intent fyi; leave out --fyi or --intent question\n',
      code: 64,
    });
  });
});

describe('a message for another mailbox', () => {
  it('is named with its reader when somebody else wants to take it, and every hint acts as the same agent', async () => {
    const program = await new Program().init('me', 'reviewer');
    const { id } = await program.json<{ id: string }>(['send', '@reviewer', 'is the lock free?']);
    const taken = await program.run(['take', id.slice(0, 8)]);
    expect(taken).toMatchObject({ out: '', code: 77 });
    expect(taken.err).toBe(
      `parley: message ${id.slice(0, 8)} waits for @reviewer, not for @me; act as its reader: --as reviewer\n`,
    );
    const { err } = await program.run(['inbox', '--as', 'reviewer']);
    expect(err).toContain('answer: parley reply <id> "…" --as reviewer');
    expect((await program.run(['take', id, '--as', 'reviewer'])).out).toContain('is the lock free?');
  });
});
