import { describe, expect, it } from 'bun:test';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { MessageId } from '../../core/names.ts';
import type { Attempt } from '../../core/ports/way-in.ts';
import { QueueWay } from './queue.ts';

/** The result of a prompt if `codex` is this script. */
async function queued(script: string): Promise<Attempt> {
  const cwd = temporaryHome();
  const program = `${cwd}/codex`;
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o700);
  return attempted(program, cwd);
}

async function attempted(program: string, cwd: string): Promise<Attempt> {
  const way = new QueueWay({ program, cwd, env: { PATH: process.env['PATH'] } }, 'a-thread', () => {});
  return way.attempt([{ id: MessageId.parse(crypto.randomUUID()), text: 'mail waits' }], AbortSignal.timeout(60_000));
}

describe('a prompt by `codex queue`', () => {
  it('is offered if Codex reports that it is queued', async () => {
    const said = await queued('test "$1 $2 $3 $4 $5" = "queue --thread a-thread --message mail waits"');
    expect(said).toEqual({
      outcome: 'offered',
      evidence: { way: 'rpc', by: 'codex queue', session: 'a-thread' },
    });
  });

  it('is not tried again if Codex may have taken it before it ended or failed', async () => {
    for (const script of ['kill -TERM $$', 'echo "Error: the server closed the connection" >&2; exit 1'])
      expect(await queued(script)).toMatchObject({ outcome: 'offered', evidence: { entered: 'unknown' } });
  });

  it('is tried again if Codex refused it, and gives the reason', async () => {
    const warned = 'echo "WARNING: proceeding" >&2; echo "Error: No active session found matching \'x\'." >&2; exit 1';
    expect(await queued(warned)).toEqual({
      outcome: 'left',
      because: "codex queue: Error: No active session found matching 'x'.",
      retry: true,
    });
    const unknown =
      'failed to read thread: invalid thread-store request: no rollout found for thread id 0 (code -32603)';
    expect(await queued(`echo "Error: thread/queue/add failed: ${unknown}" >&2; exit 1`)).toMatchObject({
      outcome: 'left',
      retry: true,
    });
    expect(await queued(`echo "error: unrecognized subcommand" >&2; exit 2`)).toMatchObject({ outcome: 'left' });
  });

  it('is tried again if there is no Codex', async () => {
    const home = temporaryHome();
    expect(existsSync(`${home}/codex`)).toBe(false);
    expect(await attempted(`${home}/codex`, home)).toMatchObject({ outcome: 'left', retry: true });
  });
});
