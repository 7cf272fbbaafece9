import { describe, expect, it } from 'bun:test';
import { renameSync, writeFileSync } from 'node:fs';
import { PARLEY, Program } from '../support/program.ts';

interface Sent {
  id: string;
  copies: { attention: { reason: string; policy: string } }[];
}

/** Leaves a message in a mailbox as a plain script would. */
function leave(parley: Program, mailbox: string, fields: Record<string, unknown>): void {
  const message = { id: 'script-1', from: 'script', to: `@${mailbox}`, body: 'hello', priority: 'normal', ...fields };
  writeFileSync(`${parley.home}/.parley/spool/${mailbox}/new/script-1.json`, JSON.stringify(message));
}

describe('what is said of a message', () => {
  it('that another program stored is only that it was found', async () => {
    const parley = await new Program().init('alice');
    leave(parley, 'alice', {});
    await parley.run(['inbox']);
    const { out } = await parley.run(['trace', 'script-1']);
    expect(out).toContain('found in the mailbox');
    expect(out).not.toContain('flushed');
  });

  it('that another program took is that it is unknown what became of it', async () => {
    const parley = await new Program().init('alice');
    const { id } = await parley.json<Sent>(['send', '@alice', 'hi']);
    const box = `${parley.home}/.parley/spool/alice`;
    renameSync(`${box}/new/${id}.json`, `${box}/cur/${id}.json`);
    const { out } = await parley.run(['trace', id]);
    expect(out).toContain('taken_elsewhere');
    expect(out).toContain('unknown');
    expect(out).not.toContain('waiting');
  });

  it('is not believed from its file: a forged lineage stops no exchange', async () => {
    const parley = await new Program().init('alice', 'bob');
    const lineage = { root: 'x', hop: 90, visited: ['bob'], stale: 90 };
    leave(parley, 'alice', { from: 'bob', thread: 'x', parley: { v: 1, lineage } });
    const reply = await parley.json<Sent>(['reply', 'script-1', 'what do you mean']);
    expect(reply.copies[0]?.attention.reason).not.toBe('loop');
  });

  it('names the answer of a reader who took it before answering', async () => {
    const parley = await new Program().init('alice', 'bob');
    const { id } = await parley.json<Sent>(['send', '@bob', 'is it done?']);
    await parley.run(['take', id], { as: 'bob' });
    const reply = await parley.json<Sent>(['reply', id, 'it is'], { as: 'bob' });
    const { out } = await parley.run(['trace', id, '--verbose']);
    expect(out).toContain('answered');
    expect(out).toContain(reply.id);
  });
});

describe('a key', () => {
  it('names one message to one recipient: another recipient under it is refused', async () => {
    const parley = await new Program().init('alice', 'bob');
    await parley.run(['send', '@bob', 'hi', '--key', 'k']);
    const other = await parley.run(['send', '@alice', 'hi', '--key', 'k']);
    expect(other).toMatchObject({ code: 65, out: '' });
    expect(await parley.json<unknown[]>(['inbox'])).toEqual([]);
  });

  it('still names its message when the body is long forgotten, and nothing comes again', async () => {
    const parley = await new Program(undefined, { PARLEY_KEEP_BODIES: '0' }).init('alice');
    const { id } = await parley.json<Sent>(['send', '@alice', 'hi', '--key', 'k']);
    await parley.run(['drain']);
    await parley.run(['prune']);
    expect(await parley.json<Sent>(['send', '@alice', 'hi', '--key', 'k'])).toMatchObject({ id, first: false });
    expect(await parley.json<unknown[]>(['inbox'])).toEqual([]);
  });
});

describe('a message held by a running session', () => {
  it('cannot be settled by another', async () => {
    const parley = await new Program().init('alice');
    const { id } = await parley.json<Sent>(['send', '@alice', 'work on this']);
    const command = ['watch', '--exec', 'touch began; while ! [ -e go ]; do sleep 0.05; done'];
    const watcher = Bun.spawn([PARLEY, ...command], {
      cwd: parley.home,
      env: parley.env,
      stderr: 'ignore',
      stdout: 'ignore',
    });
    while (!(await Bun.file(`${parley.home}/began`).exists())) await Bun.sleep(20);
    const ack = await parley.run(['ack', id]);
    expect(ack).toMatchObject({ code: 75, out: '' });
    expect(ack.err).toContain('running session');
    writeFileSync(`${parley.home}/go`, '');
    while ((await parley.run(['trace', id])).out.includes('held by')) await Bun.sleep(20);
    expect((await parley.run(['trace', id])).out).toContain('settled');
    watcher.kill();
    await watcher.exited;
  });
});
