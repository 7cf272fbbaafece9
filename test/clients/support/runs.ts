import type { Run } from '../../support/program.ts';

/** A program to its end. One that does not end is ended at the deadline, with what it had said. */
export async function runs(
  command: string[],
  { cwd, env, ms }: { cwd: string; env: Record<string, string>; ms: number },
): Promise<Run> {
  const child = Bun.spawn(command, { cwd, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' });
  const timer = setTimeout(() => child.kill('SIGKILL'), ms);
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  clearTimeout(timer);
  if (child.signalCode === 'SIGKILL') throw new Error(`${command[0]} did not end in ${ms} ms: ${out}${err}`);
  return { out, err, code };
}
