// The table in README of how mail reaches each client, made from the outcomes of tests with the real clients.
//
//   npm run test:clients          runs them, keeps the outcomes in reach.json, and writes the table
//   bun test/clients/reach.ts     writes the table from reach.json
//
// To say more of a client, add a claim to its cell, the strongest first. The first one whose tests all passed is in the
// table; without one the cell says "not verified". test/reach.test.ts checks that the table is current.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { dependencies as pinned } from './package.json';

const HERE = new URL('.', import.meta.url).pathname;
const README = new URL('../../README.md', import.meta.url).pathname;
const STORE = `${HERE}reach.json`;
const [BEGIN, END] = ['<!-- reach: made by npm run test:clients -->', '<!-- reach end -->'];
const HEADS = ['client', 'works on something', 'is idle', 'highest step that is proven', 'answers in its window'];
export const NOT_VERIFIED = 'not verified';

/** Something that README may say, and the tests that prove it: `<file without .test.ts>: <title>`. */
interface Claim {
  says: string;
  tests: readonly string[];
}

interface Row {
  title: string;
  package: keyof typeof pinned | null;
  busy: readonly Claim[];
  idle: readonly Claim[];
  proven: readonly Claim[];
  answer: readonly Claim[];
}

const AFTER_TOOL = 'mail comes after the running tool';
const BACK = 'go back to the sender';
const KIMI_IDLE =
  'live-kimi: gives an idle Kimi its mail, before its first prompt and after, and sends its answers back';
const KIMI_BY_HAND =
  'live-kimi: gets its mail with the next prompt, its record proves it, and what is owed comes again after a compaction';

const GEMINI_IDLE =
  'live-gemini: gives an idle Gemini CLI its mail, before its first prompt and after, and sends its answers back';
const GEMINI_BY_HAND = 'live-gemini: gets its mail with the next prompt, and its record proves it';

export const ROWS: readonly Row[] = [
  {
    title: 'Claude Code',
    package: '@anthropic-ai/claude-code',
    busy: [
      {
        says: AFTER_TOOL,
        tests: ['live-claude: reaches one that works after its running tool, and belongs to no turn of its own'],
      },
    ],
    idle: [
      {
        says: 'woken',
        tests: [
          'live-claude: wakes one that is idle, is proven by the request that had it, and gives the answer of its turn',
          'talk: talk: a question of one is answered in the window of the other, and the answer is read',
        ],
      },
    ],
    proven: [
      {
        says: '`shown`, by its transcript',
        tests: [
          'live-claude: is not shown where no model answered, though the client recorded a request',
          'live-claude: is never said to be shown where the client is killed before its model answers',
          'live-claude: by a hook is proven by the same record, also beside another call',
        ],
      },
    ],
    answer: [{ says: BACK, tests: ['talk: is woken when it is idle, and what it says in its window goes back'] }],
  },
  {
    title: 'Codex',
    package: '@openai/codex',
    busy: [
      { says: AFTER_TOOL, tests: ['live-codex: that works comes after the running tool, before the next request'] },
    ],
    idle: [
      {
        says: 'woken',
        tests: [
          'live-codex: that never had a prompt begins its first turn, and one that is idle its next',
          'talk: talk: a question of one is answered in the window of the other, and the answer is read',
        ],
      },
    ],
    proven: [
      {
        says: '`shown`, by its rollout',
        tests: [
          'live-codex: is not claimed as shown if its window is killed, and not sent to a thread without one',
          'live-codex: is proven as well if our hook brought it',
        ],
      },
    ],
    answer: [
      {
        says: BACK,
        tests: [
          'live-codex: that asks gets a turn of its own, whose last words are the answer',
          'talk: talk: a question of one is answered in the window of the other, and the answer is read',
        ],
      },
    ],
  },
  {
    title: 'OpenCode',
    package: 'opencode-ai',
    busy: [
      { says: AFTER_TOOL, tests: ['live-opencode: that works comes after the running tool, before the next request'] },
      {
        says: 'when its model asks for it',
        tests: ['answering: answers when the user allowed that, and knows the skill'],
      },
    ],
    idle: [
      {
        says: 'woken',
        tests: ['live-opencode: that shows no session yet begins one there, and leaves a draft as it is'],
      },
      {
        says: 'when its model asks for it',
        tests: ['answering: answers when the user allowed that, and knows the skill'],
      },
    ],
    proven: [
      {
        says: '`shown`, by its own database',
        tests: [
          'live-opencode: is not claimed as shown if its window is killed, and comes once when the session is resumed',
        ],
      },
      {
        says: 'settled, by its own tool call',
        tests: ['answering: answers when the user allowed that, and knows the skill'],
      },
    ],
    answer: [
      { says: BACK, tests: ['live-opencode: that asks gets a turn of its own, whose last words are the answer'] },
    ],
  },
  {
    title: 'Kimi',
    package: '@moonshot-ai/kimi-code',
    busy: [
      {
        says: 'mail comes at the end of the turn',
        tests: [
          'kimi-hook: makes the model go on at the end of its turn, for mail that came while it spoke',
          'live-kimi: types nothing while Kimi works: mail comes at the end of the turn, 15 in a burst once each',
        ],
      },
      {
        says: 'by its hook, by the end of the turn',
        tests: ['kimi-hook: makes the model go on at the end of its turn, for mail that came while it spoke'],
      },
    ],
    idle: [
      { says: 'woken in `parley run kimi`, else with your next prompt', tests: [KIMI_IDLE, KIMI_BY_HAND] },
      { says: 'with your next prompt', tests: ['smoke: in Kimi, by its hook, with the prompt of its user'] },
    ],
    proven: [
      { says: '`shown`, by its `wire.jsonl`', tests: [KIMI_IDLE, KIMI_BY_HAND] },
      { says: '`offered`, by its hook', tests: ['smoke: in Kimi, by its hook, with the prompt of its user'] },
    ],
    answer: [{ says: `${BACK}, in \`parley run kimi\``, tests: [KIMI_IDLE] }],
  },
  {
    title: 'Gemini CLI',
    package: '@google/gemini-cli',
    busy: [
      {
        says: `${AFTER_TOOL}, with its hook`,
        tests: ['gemini-hook: shows mail after the running tool, and its record proves it'],
      },
    ],
    idle: [
      { says: 'woken in `parley run gemini`, else with your next prompt', tests: [GEMINI_IDLE, GEMINI_BY_HAND] },
      {
        says: 'with your next prompt',
        tests: ['gemini-hook: shows mail with the prompt of its user, and its record proves it'],
      },
    ],
    proven: [
      {
        says: '`shown`, by its own record',
        tests: [
          'gemini-hook: shows mail with the prompt of its user, and its record proves it',
          'gemini-hook: gives mail again whose request was cancelled',
        ],
      },
    ],
    answer: [{ says: `${BACK}, in \`parley run gemini\``, tests: [GEMINI_IDLE] }],
  },
];

/** What was run last with each client: its version, and the tests that passed. */
export type Reach = Record<string, { version: string; passed: string[] }>;

/** One outcome of a run, as scripts/test.mjs keeps it. */
export interface Outcome {
  file: string;
  title: string;
  outcome: 'pass' | 'fail' | 'skip';
}

export function readReach(): Reach {
  return existsSync(STORE) ? (JSON.parse(readFileSync(STORE, 'utf8')) as Reach) : {};
}

export function testsOf(row: Row): string[] {
  return [...new Set([row.busy, row.idle, row.proven, row.answer].flat().flatMap(({ tests }) => tests))].sort();
}

/** What a run of the tests with real clients gave. */
export interface RunOutcomes {
  /** The test files that ran. */
  files: readonly string[];
  tests: readonly Outcome[];
}

/** The clients of a run: their versions, and the programs of those that start. */
export interface RunClients {
  versions: Record<string, string>;
  programs: Record<string, string>;
}

/**
 * The outcomes of before with those of a run in their place. Those of another version of a client count no more, nor those of a test that
 * was skipped or did not run, though its file ran and its client starts.
 */
export function reachAfter(before: Reach, run: RunOutcomes, { versions, programs }: RunClients): Reach {
  const ran = new Set(run.files.map(groupOf));
  return Object.fromEntries(
    ROWS.flatMap((row) => {
      if (row.package === null) return [];
      const name: string = row.package;
      const version = versions[name] ?? '';
      const known = before[name];
      const kept = known?.version === version ? known.passed : [];
      const passed = testsOf(row).filter((test) => {
        const outcomes = run.tests.filter((one) => nameOf(one) === test).map(({ outcome }) => outcome);
        const isKept = name in programs ? !ran.has(test.split(': ')[0] ?? '') : outcomes.every((one) => one === 'skip');
        return isKept ? kept.includes(test) : outcomes.length > 0 && outcomes.every((one) => one === 'pass');
      });
      return [[name, { version, passed }]];
    }),
  );
}

function groupOf(file: string): string {
  return file.replace(/^.*\/|\.test\.ts$/g, '');
}

function nameOf({ file, title }: Outcome): string {
  return `${groupOf(file)}: ${title.slice(title.indexOf(' > ') + 3)}`;
}

export function tableOf(reach: Reach): string {
  const lines = ROWS.map((row) => {
    const { version = '', passed = [] } = row.package === null ? {} : (reach[row.package] ?? {});
    const cells = [row.busy, row.idle, row.proven, row.answer].map(
      (claims) => claims.find(({ tests }) => tests.every((test) => passed.includes(test)))?.says ?? NOT_VERIFIED,
    );
    return [`${row.title} ${version}`.trim(), ...cells];
  });
  return [HEADS, HEADS.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** README with this table between its two marks. */
export function withTable(readme: string, table: string): string {
  const [from, to] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`README.md has no ${BEGIN} before ${END}`);
  return `${readme.slice(0, from + BEGIN.length)}\n\n${table}\n\n${readme.slice(to)}`;
}

if (import.meta.main) {
  const [results, programs] = process.argv.slice(2);
  if (results !== undefined && programs !== undefined) {
    const run = JSON.parse(readFileSync(results, 'utf8')) as RunOutcomes;
    const clients = JSON.parse(readFileSync(programs, 'utf8')) as RunClients;
    writeFileSync(STORE, `${JSON.stringify(reachAfter(readReach(), run, clients), null, 2)}\n`);
  }
  writeFileSync(README, withTable(readFileSync(README, 'utf8'), tableOf(readReach())));
}
