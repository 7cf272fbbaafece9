import text from '../../../plugins/opencode/c2c.ts' with { type: 'text' };

/** The plugin for OpenCode. It calls `c2c` by this path: what is on OpenCode's search path may be another program. */
export function pluginText(command: string): string {
  const named = String(text).replace(/^const COMMAND = .*;$/m, () => `const COMMAND = ${JSON.stringify(command)};`);
  return named;
}
