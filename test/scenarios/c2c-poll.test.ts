// The way in that every client has: its MCP server, and where it has none the command line.
import { describe, expect, it } from 'bun:test';
import { InstallMachine } from '../support/install-home.ts';
import { McpClient } from '../support/mcp.ts';

interface Server {
  command: string[];
  env: Record<string, string>;
}
type Facts = Record<string, unknown>;
interface Entry {
  command: string;
  args: string[];
  env: Record<string, string>;
}

const plain = ({ command, args, env }: Entry): Server => ({ command: [command, ...args], env });
const ofServers = (text: string): Server => plain((JSON.parse(text) as { mcpServers: { c2c: Entry } }).mcpServers.c2c);

/** Where each client has its servers, how they stand there, and the version of MCP that it speaks. */
const CLIENTS: [client: string, path: string, version: string, read: (text: string) => Server][] = [
  ['claude', 'project/.mcp.json', '2025-11-25', ofServers],
  [
    'codex',
    '.codex/config.toml',
    '2025-06-18',
    (text) => plain((Bun.TOML.parse(text) as { mcp_servers: { c2c: Entry } }).mcp_servers.c2c),
  ],
  [
    'opencode',
    'project/.opencode/opencode.json',
    '2025-06-18',
    (text) => {
      type Own = { mcp: { c2c: { command: string[]; environment: Record<string, string> } } };
      const { command, environment } = (JSON.parse(text) as Own).mcp.c2c;
      return { command, env: environment };
    },
  ],
  ['kimi', '.kimi-code/mcp.json', '2025-03-26', ofServers],
  ['gemini', '.gemini/settings.json', '2024-11-05', ofServers],
];

describe('what waits for a session', () => {
  it.each(CLIENTS)(
    'is given to poll_inbox of the server that `c2c install %s` wrote into %s, once [C2C-34]',
    async (client, path, version, read) => {
      const machine = new InstallMachine();
      await machine.does('c2c', ['install', client]);
      const { command, env } = read(machine.read(path));
      const server = new McpClient({ home: machine.at('project'), env: { ...machine.env(), ...env }, command });
      expect(await server.initialize(version)).toMatchObject({ protocolVersion: version });
      const json = async (tool: string, given: object = {}): Promise<unknown> => {
        const { text, isError } = await server.call(tool, given);
        if (isError) throw new Error(text);
        return JSON.parse(text);
      };
      // Where no alias could be written down the model says which one it wants.
      const { alias } = (await json('whoami')) as { alias: string | null };
      const reader = alias ?? ((await json('register', { alias: 'newcomer' })) as { alias: string }).alias;
      const broker = env['C2C_MCP_BROKER_ROOT'] ? { env: { C2C_MCP_BROKER_ROOT: env['C2C_MCP_BROKER_ROOT'] } } : {};
      await machine.does('c2c', ['send', reader, 'is the build red?', '--from', 'bob'], broker);
      const mail = [{ from_alias: 'bob', to_alias: reader, content: 'is the build red?' }];
      expect(await json('poll_inbox')).toMatchObject(mail);
      expect(await json('poll_inbox')).toEqual([]);

      // A client without MCP has the command.
      await machine.does('c2c', ['send', reader, 'and now?', '--from', 'bob'], broker);
      const { session_id: session } = (await json('whoami')) as Facts;
      const poll = ['poll-inbox', '--json', '--file-fallback', '--session-id', String(session)];
      expect(JSON.parse(await machine.does('c2c', poll, broker))).toMatchObject([{ content: 'and now?' }]);
      expect(JSON.parse(await machine.does('c2c', poll, broker))).toEqual([]);
      expect((await server.end()).code).toBe(0);
    },
  );
});
