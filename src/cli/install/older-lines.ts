import type { Noted } from '../../clients/settings/manifest.ts';

/** The mailbox that 0.1.0 wrote into the settings of a client, if it did. */
export function formerMailbox(noted: readonly Noted[]): string | undefined {
  const lines = noted.filter(({ what }) => what.startsWith('hook') || what.startsWith('MCP server'));
  const texts = lines.map(({ content }) => JSON.stringify(content));
  return texts.map((text) => /--as[^A-Za-z0-9]+([A-Za-z0-9][A-Za-z0-9._-]*)/.exec(text)?.[1]).find(Boolean);
}
