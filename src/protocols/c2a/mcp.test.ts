import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { aDurableWorkspace } from '../../../test/support/durable-workspace.ts';
import { bob } from '../../../test/support/mail.ts';
import { TOOLS } from './shapes.ts';
import { AgentName } from '../../core/names.ts';
import { storageTrouble } from '../../core/disk.ts';
import { McpServer } from '../../wire/mcp.ts';
import { chatFace, PULL_WITH, TOOL_LIST } from './mcp.ts';

interface Answer {
  id: unknown;
  result?: { [field: string]: unknown };
  error?: { code: number; message: string };
}

/** The server's answers to these lines. A busy server begins its first call after it has read them all. */
async function answers(lines: readonly (object | string)[], isBusy = false): Promise<Answer[]> {
  const read = Promise.withResolvers<void>();
  const workspace = await aDurableWorkspace('alice', 'bob');
  const said: Answer[] = [];
  const server = new McpServer({
    face: chatFace('1.2.3', async () => {
      if (isBusy) await read.promise;
      return { workspace, who: { name: bob, home: workspace.own }, gather: async () => {} };
    }),
    write: (line) => said.push(JSON.parse(line) as Answer),
    log: (event, facts) => {
      throw new Error(`${event} ${JSON.stringify(facts)}`);
    },
    explain: storageTrouble,
    advice: () => null,
  });
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify({ jsonrpc: '2.0', ...line })));
  await server.serve(bytesOf(text.map((line) => `${line}\n`).join(''), read.resolve));
  return said;
}

/** The bytes in pieces that split characters. */
async function* bytesOf(text: string, atEnd = (): void => {}): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
  atEnd();
}

const calling = (id: number, name: string, given: object = {}) => ({
  id,
  method: 'tools/call',
  params: { name, arguments: given },
});

function textIn(answer: Answer | undefined): string {
  const [{ text = '' } = {}] = (answer?.result?.['content'] ?? []) as { text?: string }[];
  return text;
}

describe('the tools over MCP', () => {
  it('are the seven of the protocol and one that says who is here [C2A-118]', async () => {
    const [listed] = await answers([{ id: 1, method: 'tools/list' }]);
    const tools = (listed?.result?.['tools'] ?? []) as { name: string }[];
    const names = tools.map(({ name }) => name);
    expect(names).toEqual([...Object.keys(TOOLS).map((name) => name.replace('.', '_')), 'chat_who']);
  });

  it('take less than 2,800 bytes of a context', async () => {
    const [listed] = await answers([{ id: 1, method: 'tools/list' }]);
    expect(Buffer.byteLength(JSON.stringify(listed?.result))).toBeLessThanOrEqual(2800);
  });

  it('each say that they can be repeated without harm [C2A-148]', () => {
    const hints = TOOL_LIST.slice(0, 7).map(({ annotations }) => annotations);
    for (const hint of hints) expect(hint).toHaveProperty('idempotentHint', true);
    expect(hints.map((hint) => 'readOnlyHint' in (hint ?? {}))).toEqual([
      true,
      true,
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  it('describe what the protocol takes, and nothing else', () => {
    for (const { name, inputSchema } of TOOL_LIST.slice(0, 7)) {
      const { entries } = TOOLS[name.replace('_', '.') as keyof typeof TOOLS].inner;
      const fields = Object.entries(entries as Record<string, { type: string; options?: readonly string[] }>);
      const needed = fields.flatMap(([field, { type }]) => (type === 'optional' ? [] : [field]));
      expect({ name, required: [...(inputSchema.required ?? [])].sort() }).toEqual({ name, required: needed.sort() });
      for (const field of Object.keys(inputSchema.properties)) expect(Object.keys(entries)).toContain(field);
    }
  });

  it('have the same names in knocks as here', () => {
    expect(TOOL_LIST.map(({ name }) => name)).toContain(PULL_WITH);
  });
});

describe('a server over MCP', () => {
  it('says who it is, in the version that was asked for, and what the rules are [C2A-81a]', async () => {
    const [welcome] = await answers([{ id: 'a', method: 'initialize', params: { protocolVersion: '2025-06-18' } }]);
    expect(welcome).toMatchObject({
      id: 'a',
      result: {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'parley', version: '1.2.3' },
        instructions: expect.stringContaining('- Obey response_policy.'),
      },
    });
  });

  it('offers its newest version to a client with an unknown one', async () => {
    const [welcome] = await answers([{ id: 1, method: 'initialize', params: { protocolVersion: '2031-01-01' } }]);
    expect(welcome?.result?.['protocolVersion']).toBe('2025-11-25');
  });

  it('answers a bad frame with what is wrong, and continues', async () => {
    const said = await answers([
      '{"no',
      '[]',
      { id: 1, method: 'resources/list' },
      calling(2, 'chat_shout'),
      { method: 'notifications/initialized' },
      { id: 3, method: 'ping' },
    ]);
    expect(said.map(({ id, error }) => [id, error?.code])).toEqual([
      [null, -32700],
      [null, -32600],
      [1, -32601],
      [2, -32602],
      [3, undefined],
    ]);
  });

  it('answers calls in the order of arrival', async () => {
    const said = await answers([calling(1, 'chat_who'), calling(2, 'chat_list_events'), calling(3, 'chat_who')]);
    expect(said.map(({ id }) => id)).toEqual([1, 2, 3]);
  });

  it('does not answer a cancelled call', async () => {
    const cancel = { method: 'notifications/cancelled', params: { requestId: 1 } };
    const said = await answers([calling(1, 'chat_who'), cancel, calling(2, 'chat_who')], true);
    expect(said.map(({ id }) => id)).toEqual([2]);
  });

  it('returns a refusal as a tool result, in one line that tells the model what to do', async () => {
    const said = await answers([
      calling(1, 'chat_read_thread', { eventId: 'nope' }),
      calling(2, 'chat_send_message', { text: 'hello' }),
      calling(3, 'chat_react', { inReplyTo: 'nope', signal: '👍' }),
      calling(4, 'chat_list_events', { policy: 'loud' }),
      calling(5, 'chat_read_thread'),
    ]);
    expect(said.map(({ result }) => result?.['isError'])).toEqual([true, true, true, true, true]);
    expect(said.map(textIn)).toEqual([
      'no event nope is here for you; see chat_list_events',
      'target is missing',
      expect.stringMatching(/^signal: use one of seen, agree, /),
      expect.stringMatching(/^policy: .*must_respond/),
      'give eventId or conversation; see chat_list_events for both',
    ]);
  });

  it('acts for agents only: no call can approve for a person', async () => {
    const workspace = await aDurableWorkspace();
    await workspace.own.directory.register(AgentName.parse('will'), 'human');
    const said: Answer[] = [];
    const server = new McpServer({
      face: chatFace('1', async () => {
        return { workspace, who: { name: AgentName.parse('will'), home: workspace.own }, gather: async () => {} };
      }),
      write: (line) => said.push(JSON.parse(line) as Answer),
      log: () => {},
      explain: storageTrouble,
      advice: () => null,
    });
    await server.serve(bytesOf(`${JSON.stringify({ jsonrpc: '2.0', ...calling(1, 'chat_list_events') })}\n`));
    expect(textIn(said[0])).toStartWith('@will is a person');
  });

  it('answers every line that can be answered, whatever it contains', async () => {
    const line = fc.oneof(
      fc.json(),
      fc.string({ unit: 'binary' }).map((text) => text.replace(/[\r\n]/g, '')),
      fc
        .record({ jsonrpc: fc.constant('2.0'), id: fc.jsonValue(), method: fc.string(), params: fc.jsonValue() })
        .map((one) => JSON.stringify(one)),
      fc
        .jsonValue()
        .map((given) => JSON.stringify({ jsonrpc: '2.0', ...calling(1, 'chat_read_thread', given as object) })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 20 }), async (lines) => {
        const said = await answers([...lines, { id: 'last', method: 'ping' }]);
        expect(said.filter(({ id }) => id === 'last').length).toBeGreaterThanOrEqual(1);
      }),
      { numRuns: 30 },
    );
  });

  it('end cleanly with a client that is gone before it was answered', async () => {
    const workspace = await aDurableWorkspace('alice', 'bob');
    const failed: string[] = [];
    const server = new McpServer({
      face: chatFace('1.2.3', async () => ({
        workspace,
        who: { name: bob, home: workspace.own },
        gather: async () => {},
      })),
      write: () => {
        throw new Error('EPIPE');
      },
      log: (event) => failed.push(event),
      explain: storageTrouble,
      advice: () => null,
    });
    await server.serve(
      bytesOf([1, 2].map((id) => `${JSON.stringify({ jsonrpc: '2.0', ...calling(id, 'chat_who') })}\n`).join('')),
    );
    expect(failed).toEqual(['failed', 'failed']);
  });

  it.each([
    ['it was logged, try something else', null],
    ['start it again', 'start it again'],
  ])('says of an error of ours: %s', async (told, advice) => {
    const said: Answer[] = [];
    const server = new McpServer({
      face: chatFace('1', async () => {
        throw new SyntaxError('Export named "x" not found');
      }),
      write: (line) => said.push(JSON.parse(line) as Answer),
      log: () => {},
      explain: storageTrouble,
      advice: () => advice,
    });
    await server.serve(bytesOf(`${JSON.stringify({ jsonrpc: '2.0', ...calling(1, 'chat_who') })}\n`));
    expect(textIn(said[0])).toBe(`internal error of parley; ${told}`);
  });
});
