/** A stand-in for a client: one process that runs its hooks, tools and shells as told, one JSON line each. */
import { createInterface } from 'node:readline';

interface Order {
  command: string[];
  stdin: string;
  env: Record<string, string>;
  cwd: string;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { command, stdin, env, cwd } = JSON.parse(line) as Order;
  const child = Bun.spawn(command, { cwd, env, stdin: new Blob([stdin]), stdout: 'pipe', stderr: 'pipe' });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  process.stdout.write(`${JSON.stringify({ out, err, code })}\n`);
}
