import { describe, expect, it } from 'bun:test';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import type { MessageId } from '../../core/names.ts';
import { ShownInTranscript } from './evidence.ts';

const parcel = (id: string) => ({ id: id as MessageId, text: 'hello' });
const told = (id: string): string => `<channel source=\\"c2c\\" message_id=\\"${id}\\">`;

function aTranscript(): { shown: ShownInTranscript; says: (line: string) => void } {
  const home = temporaryHome();
  const path = `${home}/projects/-work/cc-1.jsonl`;
  mkdirSync(`${home}/projects/-work`, { recursive: true });
  writeFileSync(path, `{"type":"user","message":{"content":"${told('before')}"}}\n`);
  return { shown: new ShownInTranscript([home], 'cc-1'), says: (line) => appendFileSync(path, `${line}\n`) };
}

/** The evidence that the wait finds if these lines are written meanwhile. */
async function found(ids: string[], lines: string[]): Promise<unknown> {
  const { shown, says } = aTranscript();
  const waiting = shown.wait(ids.map(parcel), new AbortController().signal, 700);
  for (const line of lines) says(line);
  return waiting;
}

describe('the transcript of a session', () => {
  it('proves the messages of a channel, each by its own id [C2C-30b]', async () => {
    const lines = ['a', 'b'].map((id) => `{"type":"user","message":{"content":"${told(id)}"}}`);
    expect(await found(['a', 'b'], lines)).toMatchObject({ session: 'cc-1' });
    expect(await found(['a', 'c'], lines)).toBeNull();
  });

  it('proves nothing by earlier lines, by a line that only names the id, or by a line about the queue [C2C-30b]', async () => {
    expect(await found(['before'], [])).toBeNull();
    expect(
      await found(['a'], ['{"type":"user","message":{"content":"{\\"message_id\\":\\"a\\"} <channel >"}}']),
    ).toBeNull();
    expect(
      await found(['a'], [`{"type":"queue-operation","operation":"enqueue","content":"${told('a')}"}`]),
    ).toBeNull();
  });
});
