// An export worker that cannot be loaded, or dies: no caller waits for ever.
import { expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';

const SOURCE = new URL('../..', import.meta.url).pathname;

/** Runs a program in which `Worker` is this class. */
async function run(worker: string, args: string[]): Promise<{ out: string; err: string; code: number }> {
  const home = temporaryHome();
  writeFileSync(`${home}/preload.ts`, `const Real = Worker;\nglobalThis.Worker = ${worker};\n`);
  const child = Bun.spawn([process.execPath, '--preload', `${home}/preload.ts`, ...args], {
    cwd: home,
    env: { PATH: process.env['PATH'] ?? '', HOME: home, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 20_000,
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { out, err, code: await child.exited };
}

it('a relay whose export worker cannot be loaded says so in one line and does not start', async () => {
  const broken = `class extends Real { constructor() { super('file:///nowhere/at-all.ts'); } }`;
  const { out, err, code } = await run(broken, [`${SOURCE}cli/main.ts`, 'bch', 'relay', '--port', '0']);
  expect(out).toBe('');
  expect(err).toMatch(/^\w+: the export worker failed: .*\n$/);
  expect(code).toBe(1);
}, 30_000);

it('a request fails if its export worker dies, and a new worker answers the next request', async () => {
  // The first worker dies at the first request for a list.
  const mortal = `class extends Real {
    static died = false;
    postMessage(message) {
      if (message.do !== 'list' || Real.died) return super.postMessage(message);
      Real.died = true;
      this.dispatchEvent(new ErrorEvent('error', { message: 'it died' }));
    }
  }`;
  const script = `
    const { openServerHome } = await import('${SOURCE}../test/support/server-home.ts');
    const { mailboxes, close } = await openServerHome(process.cwd() , { heal: false });
    const alive = setInterval(() => {}, 1000);
    console.log(await mailboxes.heal().catch((error) => error.message));
    console.log(await mailboxes.heal());
    await close();
    clearInterval(alive);
    process.exit();`;
  const { out, err } = await run(mortal, ['-e', script]);
  expect([out, err]).toEqual(['the export worker failed: it died\nundefined\n', '']);
}, 30_000);
