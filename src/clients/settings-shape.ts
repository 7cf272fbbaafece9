/** The shape of hook settings that Claude Code began and others took over. Merge it beside what is there. */
export function claudeShape(command: string, timeout: number, events: readonly string[]): string {
  const entry = JSON.stringify([{ hooks: [{ type: 'command', command, timeout }] }]);
  return `{"hooks": {\n${events.map((event) => `  "${event}": ${entry}`).join(',\n')}\n}}`;
}
