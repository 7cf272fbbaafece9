// Answers events as `parley hook` does, one after the other, in one process: for stories of many events. Each line of stdin is
// {"client": …, "event": …}; after each answer a line with a NUL follows.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Context } from '../../src/cli/context.ts';
import { answerHook } from '../../src/cli/commands/hook.ts';
import { hookClient } from '../../src/clients/clients.ts';
import { HookEvent } from '../../src/delivery/hook-event.ts';

for await (const line of createInterface({ input: process.stdin })) {
  const { client, event } = JSON.parse(line) as { client: string; event: { cwd: string } };
  const context = new Context(process.env, event.cwd, {});
  await answerHook(context, hookClient(client), HookEvent.parse(event), { as: undefined, fineTimes: true });
  writeSync(1, '\0\n');
}
