import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'bun:test';
import { cpSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../support/home.ts';
import { aMessage, anId } from '../support/mail.ts';
import { McpClient } from '../support/mcp.ts';
import { Program } from '../support/program.ts';

const OURS = new URL('../../', import.meta.url).pathname;

const program = new Program();
beforeAll(() => program.init('bob'));

let installed: Installation;
beforeEach(() => {
  installed = new Installation();
});
afterEach(() => rmSync(installed.place, { recursive: true }));

/** Another place where Parley is installed, as source. */
class Installation {
  readonly place = temporaryHome();

  constructor() {
    const filter = (path: string): boolean => !/\.(?:test|contract)\.ts$/.test(path);
    for (const name of ['src', 'package.json', 'tsconfig.json'])
      cpSync(`${OURS}${name}`, `${this.place}/${name}`, { recursive: true, filter });
    symlinkSync(`${OURS}node_modules`, `${this.place}/node_modules`);
  }

  command(...words: string[]): string[] {
    return [process.execPath, '--no-install', `${this.place}/src/cli/main.ts`, ...words];
  }

  /** Another version is put there, in which this file asks another one for something new. */
  upgrade(file: string): void {
    this.#put(file, `export { something_new } from '${this.place}/src/core/disk.ts';\n`);
    this.#put('cli/main.ts', readFileSync(`${this.place}/src/cli/main.ts`, 'utf8'));
  }

  #put(file: string, text: string): void {
    writeFileSync(`${this.place}/draft`, text);
    renameSync(`${this.place}/draft`, `${this.place}/src/${file}`);
  }

  remove(): void {
    rmSync(`${this.place}/src`, { recursive: true });
  }
}

describe('what runs while its files are replaced goes on with the code that it was started with:', () => {
  it.each([
    ['upgraded', (one: Installation) => one.upgrade('core/mail/attend.ts')],
    ['removed', (one: Installation) => one.remove()],
  ])('a tool server, %s', async (_what, replace) => {
    const { home, env } = program;
    const sent = await program.run(['send', '@bob', 'is it red?', '--json'], { as: 'bob' });
    const { id } = JSON.parse(sent.out) as { id: string };
    const server = new McpClient({ home, env, command: installed.command('mcp', '--as', 'bob') });
    await server.initialize();
    replace(installed);
    expect((await server.call('reply', { id, text: 'it is' })).isError).toBeFalsy();
    expect((await server.end()).err).not.toContain('internal error');
  });

  it('a command that stays, and shows the mail that comes', async () => {
    const { home, env } = program;
    const watch = Bun.spawn(installed.command('watch', '--as', 'bob'), { cwd: home, env, stderr: 'pipe' });
    let said = '';
    for await (const bytes of watch.stderr) {
      said += new TextDecoder().decode(bytes);
      if (said.endsWith('(Ctrl-C stops)\n')) break;
    }
    installed.upgrade('core/mail/attend.ts');
    const answer = aMessage({ body: 'is the lock free?', thread: anId() });
    writeFileSync(`${home}/draft`, JSON.stringify(answer));
    renameSync(`${home}/draft`, `${home}/.parley/spool/bob/new/${answer.id}.json`);
    let shown = '';
    for await (const bytes of watch.stdout) {
      shown += new TextDecoder().decode(bytes);
      if (shown.includes('is the lock free?')) break;
    }
    watch.kill('SIGINT');
    expect(await watch.exited).toBe(0);
  });
});
