import { describe, expect, it } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { send } from '../../src/core/mail/send.ts';
import type { Sent } from '../../src/core/mail/send.ts';
import { Draft } from '../../src/core/message.ts';
import { AgentName } from '../../src/core/names.ts';
import type { TestWorkspace } from '../support/workspace.ts';
import { aWorkspace, anOwner, inChannel } from '../support/workspace.ts';

/**
 * An exchange as a file. `lines` are what the answers say, in turn. They go `back` to anyone who wrote, or `round` to the next agent;
 * as plain sends, as replies in a thread, or in the thread of a channel.
 */
interface Script {
  about: string;
  agents: string[];
  goes: 'back' | 'round';
  by: 'send' | 'reply' | 'channel';
  opening: string;
  lines: string[];
}
type Wording = (body: string, hop: number, from: string) => string;

/** Of an exchange of echoes so many answers are shown. */
const MOST_SHOWN = 6;
/** A long exchange has so many messages before a message of it wakes nobody. */
const LONG_EXCHANGE = 48;
const HONEST_HOPS = 40;

const scriptsIn = (folder: string): [string, Script][] =>
  readdirSync(`${import.meta.dir}/../fixtures/${folder}`)
    .toSorted()
    .map((file) => [
      file.replace('.json', ''),
      JSON.parse(readFileSync(`${import.meta.dir}/../fixtures/${folder}/${file}`, 'utf8')) as Script,
    ]);

/** What a model sees in full. Agents in these scripts answer everything that they see, and nothing else. */
const isSeen = ({ copies }: Sent, by: string): boolean =>
  copies.some(
    ({ mailbox, attention: { injection } }) =>
      mailbox === by && (injection === 'immediate' || injection === 'buffered'),
  );

class Play {
  readonly sent: Sent[] = [];

  constructor(
    readonly workspace: TestWorkspace,
    readonly script: Script,
    readonly wording: Wording,
  ) {}

  static async of(script: Script, wording: Wording): Promise<Play> {
    const workspace = await aWorkspace(...script.agents);
    if (script.by === 'channel') await inChannel(workspace, '#hall', ...script.agents);
    await anOwner(workspace);
    return new Play(workspace, script, wording);
  }

  /** How many answers there were. */
  get hops(): number {
    return this.sent.length - 1;
  }

  /** Who speaks at this hop: everybody in turn, or the two that write to each other. */
  agent(hop: number): string {
    return this.script.agents[hop % this.script.agents.length] ?? '';
  }

  get isOver(): boolean {
    const last = this.sent.at(-1);
    return last !== undefined && !isSeen(last, this.agent(this.sent.length));
  }

  async next(): Promise<void> {
    const { workspace, script, sent } = this;
    const hop = sent.length;
    const [from, to] = [this.agent(hop), this.agent(hop + 1)];
    const last = sent.at(-1)?.message;
    const line = hop === 0 ? script.opening : (script.lines[(hop - 1) % script.lines.length] ?? '');
    const body = this.wording(filled(line, { hop, to, last }), hop, from);
    const thread = script.by === 'send' ? undefined : last?.id;
    workspace.pass(20_000);
    const draft = Draft.parse({ to: script.by === 'channel' ? '#hall' : `@${to}`, body, thread });
    sent.push(await send(workspace, AgentName.parse(from), draft));
  }

  /** What the owner was told. */
  async notices(): Promise<string[]> {
    const waiting = await this.workspace.own.mailboxes.peek(AgentName.parse('will'));
    return waiting.map(({ message }) => message.body);
  }
}

function filled(
  line: string,
  { hop, to, last }: { hop: number; to: string; last?: Sent['message'] | undefined },
): string {
  const quoted = (last?.body ?? '').split('\n').map((one) => `> ${one}`);
  return line
    .replaceAll('{n}', String(hop + 1))
    .replaceAll('{next}', to)
    .replaceAll('{clock}', `10:${10 + hop}:${20 + hop}`)
    .replaceAll('{id}', last?.id.slice(0, 8) ?? '')
    .replaceAll('{quoted}', quoted.join('\n'))
    .replaceAll('{last}', last?.body ?? '');
}

const pick = (words: readonly string[], hop: number): string => words[hop % words.length] ?? '';
const SYNONYMS: [RegExp, readonly string[]][] = [
  [/\bplease\b/gi, ['kindly', 'please', 'do']],
  [/\b(?:great|good|lovely)\b/gi, ['fine', 'nice', 'splendid']],
  [/\bwell\b/gi, ['nicely', 'well', 'rather well']],
  [/\bthank you\b/gi, ['many thanks', 'much obliged', 'thank you']],
  [/\b(?:I am|I'm)\b/gi, ['I happen to be', "I'm", 'I am']],
];

/** Ten ways to say the same that a program can go through. What they add is different at every hop, and nothing that could be checked. */
const WORDINGS: [string, Wording][] = [
  ['as it stands', (body) => body],
  ['in capitals', (body, hop) => (hop % 2 ? body.replace(/(?<!@)\b\w+/g, (word) => word.toUpperCase()) : body)],
  ['with more marks', (body, hop) => body + '!'.repeat(1 + (hop % 4))],
  ['with an emoji', (body, hop) => `${body} ${pick(['🙂', '🚀', '✨', '🙌', '🎉', '💡', '🌈'], hop)}`],
  [
    'after a word of its own',
    (body, hop) => `${pick(['Well', 'So', 'Right', 'Now', 'Ah', 'Fine', 'Oh'], hop)}, ${body}`,
  ],
  ['with a name below', (body, hop, from) => `${body}\n\n${pick(['Yours', 'Best', 'Warmly'], hop)},\n${from}`],
  ['with the time before it', (body, hop) => `[2026-06-02T10:${10 + hop}:0${hop % 10}Z] ${body}`],
  ['with a number behind it', (body, hop) => `${body} (message ${hop + 1})`],
  ['with a fresh id', (body) => `${body}\nref: ${crypto.randomUUID()}`],
  ['in other words', (body, hop) => SYNONYMS.reduce((text, [word, by]) => text.replace(word, pick(by, hop)), body)],
  [
    'in another order',
    (body, hop) =>
      hop % 2
        ? body
            .split(/(?<=[.!]) /)
            .toReversed()
            .join(' ')
        : body,
  ],
];

describe('a storm', () => {
  const storms = scriptsIn('storms');

  it('comes in twenty kinds and more, each in ten other wordings', () => {
    expect(storms.length).toBeGreaterThanOrEqual(20);
    expect(WORDINGS).toHaveLength(11);
  });

  it.each(storms.filter(([name]) => name !== 'paraphrase'))(
    '%s ends within six messages, however it is worded, and one person is told once [C2A-N7] [C2A-D10]',
    async (_name, storm) => {
      const bad: string[] = [];
      for (const [how, wording] of WORDINGS) {
        const play = await Play.of(storm, wording);
        await play.next();
        while (!play.isOver && play.hops < 30) await play.next();
        const shown = play.hops - 1;
        const told = await play.notices();
        if (shown > MOST_SHOWN || told.length !== 1) bad.push(`${how}: ${shown} shown, told ${told.length}`);
      }
      expect(bad).toEqual([]);
    },
  );

  it('paraphrase is no echo: after 48 messages it wakes nobody, every text is shown later, and one person is told once [C2A-N7] [C2A-D10]', async () => {
    const [, storm] = storms.find(([name]) => name === 'paraphrase') ?? [];
    if (!storm) throw new Error('there is no paraphrase');
    for (const [, wording] of WORDINGS) {
      const play = await Play.of(storm, wording);
      while (play.sent.length < LONG_EXCHANGE + 4) await play.next();
      const decisions = play.sent.map(({ copies }) => copies[0]?.attention);
      // A number in the opening is a fact: then the count starts after it.
      const first = decisions.findIndex((attention) => attention?.reason === 'loop');
      expect(first).toBeOneOf([LONG_EXCHANGE, LONG_EXCHANGE + 1]);
      expect(decisions.slice(LONG_EXCHANGE + 1)).toMatchObject(
        Array.from({ length: 3 }, () => ({ policy: 'must_not_respond', injection: 'digest', reason: 'loop' })),
      );
      expect(await play.notices()).toHaveLength(1);
    }
  });
});

describe('an honest exchange', () => {
  const honest = scriptsIn('honest');

  it('comes in twenty kinds and more', () => expect(honest.length).toBeGreaterThanOrEqual(20));

  it.each(honest)('%s goes on for forty hops and more, and nobody stops it [C2A-D10]', async (_name, exchange) => {
    expect(exchange.lines.length).toBeGreaterThanOrEqual(HONEST_HOPS);
    const play = await Play.of(exchange, (body) => body);
    for (let hop = 0; hop <= exchange.lines.length; hop += 1) await play.next();
    const stopped = play.sent.filter(({ copies }) => copies.some(({ attention }) => attention.reason === 'loop'));
    expect(stopped.map(({ message }) => message.body)).toEqual([]);
    expect(await play.notices()).toEqual([]);
  });
});

/** Plain talk of two agents, a message a line; `\n` in a line is a line break. */
const talks = readdirSync(`${import.meta.dir}/../fixtures/talk`)
  .toSorted()
  .map((file): [string, string[]] => {
    const text = readFileSync(`${import.meta.dir}/../fixtures/talk/${file}`, 'utf8').trimEnd();
    return [file.replace('.txt', ''), text.split('\n').map((line) => line.replaceAll('\\n', '\n'))];
  });

describe('ordinary talk', () => {
  it('comes in twenty styles and languages and more, of forty messages each', () => {
    expect(talks.length).toBeGreaterThanOrEqual(20);
    expect(new Set(talks.map(([, lines]) => lines.length))).toEqual(new Set([HONEST_HOPS]));
  });

  it.each(talks)(
    '%s is never held, by plain sends or by replies [C2A-D10]',
    async (_name, [opening = '', ...lines]) => {
      for (const by of ['send', 'reply'] as const) {
        const script = { about: '', agents: ['anna', 'ben'], goes: 'back', by, opening, lines } as const;
        const play = await Play.of({ ...script, agents: [...script.agents] }, (body) => body);
        for (let hop = 0; hop <= lines.length; hop += 1) await play.next();
        const held = play.sent.filter(({ copies }) => copies.some(({ attention }) => attention.reason === 'loop'));
        expect(held.map(({ message }) => message.body)).toEqual([]);
        expect(await play.notices()).toEqual([]);
      }
    },
  );

  it.each(talks)('%s shows every text that is more than thanks [C2A-D10]', async (_name, [opening = '', ...lines]) => {
    const play = await Play.of(
      { about: '', agents: ['anna', 'ben'], goes: 'back', by: 'send', opening, lines },
      (body) => body,
    );
    for (let hop = 0; hop <= lines.length; hop += 1) await play.next();
    const hidden = play.sent.filter((sent, hop) => !isSeen(sent, play.agent(hop + 1)));
    expect(hidden.flatMap(({ copies }) => copies.map(({ attention }) => attention.reason))).toEqual(
      hidden.map(() => 'thanks'),
    );
  });
});
