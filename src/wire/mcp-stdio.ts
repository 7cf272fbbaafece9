import { staleAdvice } from '../platform/program.ts';
import type { Log } from '../core/service.ts';
import { writeAll } from '../platform/terminal.ts';
import { storageTrouble } from '../core/disk.ts';
import { McpServer } from './mcp.ts';
import type { Face } from './mcp.ts';

/** Serves a face to the client that started us, until it closes our standard input. */
export async function serveMcp(face: Face, log: Log): Promise<void> {
  const write = (line: string): void => writeAll(1, line);
  await new McpServer({ face, write, log, explain: storageTrouble, advice: staleAdvice }).serve(Bun.stdin.stream());
}
