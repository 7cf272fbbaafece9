import { afterEach, describe, expect, it } from 'bun:test';
import { closeAll, opens } from '../support/opened.ts';
import { aModel, END, type Model } from './model.ts';
import { bash, gate, say, type Step } from './steps.ts';

afterEach(closeAll);

const TOOLS = { anthropic: [{ name: 'Bash' }], openai: [{ type: 'function', function: { name: 'bash' } }] };

describe('the scripted model', () => {
  it('takes one step for each request of an agent, and then says that it has ended', async () => {
    const model = scripted(say('one'), bash('true'));
    expect(await messages(model)).toMatchObject({ content: [{ type: 'text', text: 'one' }], stop_reason: 'end_turn' });
    expect(await messages(model)).toMatchObject({
      content: [{ type: 'tool_use', name: 'Bash', input: { command: 'true' } }],
      stop_reason: 'tool_use',
    });
    expect(await messages(model)).toMatchObject({ content: [{ text: END }] });
  });

  it('answers a request without tools beside its script', async () => {
    const model = scripted(say('one'));
    await messages(model, { tools: [] });
    await completions(model, { tools: [] });
    expect(model.main).toEqual([]);
    expect(model.asked).toHaveLength(2);
    expect(model.left).toBe(1);
  });

  it('speaks chat completions, too', async () => {
    const model = scripted({ text: 'look', calls: [{ tool: 'bash', input: { command: 'true' } }] });
    expect(await completions(model)).toMatchObject({
      choices: [
        {
          message: { content: 'look', tool_calls: [{ function: { name: 'bash', arguments: '{"command":"true"}' } }] },
          finish_reason: 'tool_calls',
        },
      ],
    });
  });

  it('speaks responses, too, where a tool of an MCP server has two names', async () => {
    const model = scripted({ text: 'look', calls: [{ tool: 'mcp__c2c__poll_inbox', input: {} }] });
    const answer = await post(model, '/v1/responses', {
      instructions: 'A',
      tools: [{ type: 'namespace', name: 'mcp__c2c', tools: [{ type: 'function', name: 'poll_inbox' }] }],
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'B' }] },
        { type: 'function_call_output', call_id: '1', output: 'C' },
      ],
    });
    expect(answer).toMatchObject({
      output: [
        { type: 'message', content: [{ text: 'look' }] },
        { type: 'function_call', namespace: 'mcp__c2c', name: 'poll_inbox', arguments: '{}' },
      ],
    });
    expect(model.last.tools).toEqual(['mcp__c2c__poll_inbox']);
    expect(model.last.pieces).toMatchObject([
      { role: 'system', kind: 'prompt', text: 'A' },
      { role: 'system', kind: 'text', text: 'B' },
      { role: 'user', kind: 'tool result', text: 'C' },
    ]);
  });

  it('counts tokens without being asked by an agent', async () => {
    const model = scripted();
    expect(await post(model, '/v1/messages/count_tokens', {})).toEqual({ input_tokens: 10 });
    expect(model.asked).toEqual([]);
  });

  it('has every text of a request, wherever it stands', async () => {
    const model = scripted();
    await messages(model, {
      system: [{ type: 'text', text: 'A' }],
      messages: [
        { role: 'user', content: 'B' },
        { role: 'system', content: [{ type: 'text', text: 'C' }] },
        { role: 'assistant', content: [{ type: 'tool_use', name: 'Bash', input: { command: 'D' } }] },
        { role: 'user', content: [{ type: 'tool_result', content: [{ type: 'text', text: 'E' }] }] },
        { role: 'user', content: [{ type: 'of another kind', source: 'F' }] },
      ],
    });
    expect(
      'ABCDEFG'
        .split('')
        .filter((text) => model.last.has(text))
        .join(''),
    ).toBe('ABCDEF');
    expect(model.last.where('C')).toEqual([{ role: 'system', kind: 'text', text: 'C' }]);
  });

  it('tells of a request at once, and answers it when its gate opens', async () => {
    const second = gate();
    const model = scripted(say('late', second.opened));
    const saw = model.saw('hello');
    const answer = messages(model);
    expect((await saw).count('hello')).toBe(1);
    second.open();
    expect(await answer).toMatchObject({ content: [{ text: 'late' }] });
  });

  it('says what came when a text did not', async () => {
    const model = scripted();
    await messages(model);
    const failure = await model.saw('something else', 1).catch(String);
    expect(failure).toContain('"something else" did not reach the model in 1 ms; 1 requests came');
  });
});

const scripted = (...steps: Step[]): Model => opens(aModel(steps));

const messages = (model: Model, fields: object = {}) =>
  post(model, '/v1/messages', {
    tools: TOOLS.anthropic,
    messages: [{ role: 'user', content: 'hello' }],
    ...fields,
  });

const completions = (model: Model, fields: object = {}) =>
  post(model, '/v1/chat/completions', {
    tools: TOOLS.openai,
    messages: [{ role: 'user', content: 'hello' }],
    ...fields,
  });

async function post(model: Model, path: string, body: object): Promise<unknown> {
  const response = await fetch(`${model.url}${path}`, { method: 'POST', body: JSON.stringify(body) });
  return response.json();
}
