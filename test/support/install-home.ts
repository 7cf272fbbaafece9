import { Running } from './bch.ts';
import type { Options } from './bch.ts';
import type { Run } from './program.ts';
import { SetupMachine } from './setup-home.ts';

/** A machine on which c2c and Parley are added to clients, from a project in its home. */
export class InstallMachine extends SetupMachine {
  constructor() {
    super();
    this.with({ 'project/': '' });
  }

  override env(options: Options = {}): Record<string, string> {
    // Installers wait for each other there; it is no part of the home.
    return { ...super.env(options), XDG_RUNTIME_DIR: this.bin, ...options.env };
  }

  /** `c2c …` or `parley …` with these words, in the project. */
  async run(name: 'c2c' | 'parley' | 'bch', args: string[], options: Options & { cwd?: string } = {}): Promise<Run> {
    const running = new Running(name, args, this.env(options), this.at(options.cwd ?? 'project'));
    await running.ended();
    return running.run();
  }

  /** What it prints. It must succeed. */
  async does(
    name: 'c2c' | 'parley' | 'bch',
    args: string[],
    options: Options & { cwd?: string } = {},
  ): Promise<string> {
    const { out, err, code } = await this.run(name, args, options);
    if (code !== 0) throw new Error(`${name} ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  /** What `parley install …` prints for its user, who is at a terminal and is not asked. It must succeed. */
  async userInstalls(...args: string[]): Promise<string> {
    const words = ['install', ...args, '--yes'];
    const { out, err, code } = await this.program.byPerson(words, { cwd: this.at('project'), env: this.env() });
    if (code !== 0) throw new Error(`parley ${words.join(' ')} ended with ${code}: ${err}`);
    return out;
  }

  /** Runs the line of a hook as a client does, with an event on stdin. */
  runsLine(line: string, event = 'PostToolUse', shell: string[] = ['sh']): Run {
    // Clients have sessions of their own.
    const session = `session-of-${/\w*$/.exec(line)?.[0]}`;
    const stdin = { session_id: session, cwd: this.at('project'), hook_event_name: event, tool_name: 'Bash' };
    const { BUN_RUNTIME_TRANSPILER_CACHE_PATH: _ours, ...env } = this.env();
    const { stdout, stderr, exitCode } = Bun.spawnSync([...shell, '-c', line], {
      env,
      cwd: this.at('project'),
      stdin: Buffer.from(JSON.stringify(stdin)),
    });
    return { out: stdout.toString(), err: stderr.toString(), code: exitCode };
  }

  /** Everything in the home but Parley's own mail. */
  get outside(): Record<string, string> {
    return Object.fromEntries(Object.entries(this.snapshot()).filter(([path]) => !/^\.(parley|c2c)(\/|$)/.test(path)));
  }
}

/** Do all characters of one text stand in another, in their order? */
export function isWithin(text: string, whole: string): boolean {
  let found = 0;
  for (let at = 0; at < whole.length; at += 1) if (whole[at] === text[found]) found += 1;
  return found === text.length;
}

/** The paths that differ between two snapshots, folders left out. */
export function changedFiles(before: Record<string, string>, after: Record<string, string>): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names]
    .filter((name) => before[name] !== after[name])
    .filter((name) => !(after[name] ?? before[name] ?? '').startsWith('folder'))
    .sort();
}

const THEIRS = { hooks: [{ type: 'command', command: 'echo theirs' }] };

/** Homes as they are found: each file as its program, its user or an editor left it. A path that ends in a slash is a folder. */
export const HOMES: Record<string, { clients: string[]; files: Record<string, string> }> = {
  'nothing in it': { clients: ['claude', 'codex', 'opencode', 'kimi', 'gemini'], files: {} },
  'empty folders': {
    clients: ['claude', 'kimi', 'opencode'],
    files: { '.claude/': '', '.kimi/': '', '.kimi-code/': '', 'project/.opencode/': '' },
  },
  'empty objects': {
    clients: ['claude', 'gemini', 'opencode'],
    files: {
      '.claude/settings.json': '{}',
      'project/.mcp.json': '{}\n',
      '.gemini/settings.json': '{ }',
      'project/.opencode/opencode.json': '{\n}',
    },
  },
  'empty lists of hooks': {
    clients: ['claude'],
    files: { '.claude/settings.json': '{"hooks": {"PostToolUse": [], "PostToolUseFailure": [\n]}}' },
  },
  'hooks of other tools at the same events': {
    clients: ['claude', 'gemini'],
    files: {
      '.claude/settings.json': JSON.stringify(
        { model: 'opus', hooks: { PostToolUse: [THEIRS, THEIRS], PostToolUseFailure: [THEIRS], Stop: [THEIRS] } },
        null,
        2,
      ),
      '.gemini/settings.json': JSON.stringify({ hooks: { AfterTool: [THEIRS] }, mcpServers: { x: { command: 'y' } } }),
    },
  },
  'servers of other tools': {
    clients: ['claude', 'opencode', 'kimi'],
    files: {
      'project/.mcp.json': '{"mcpServers":{"x":{"command":"y"}}}',
      'project/.opencode/opencode.json':
        '{\n  "$schema": "https://opencode.ai/config.json",\n  "mcp": {\n    "x": { "type": "local", "command": ["y"] }\n  },\n  "theme": "dark"\n}\n',
      '.kimi/mcp.json': '{"mcpServers": {"x": {"command": "y"}}}',
      '.kimi-code/mcp.json': '{\n    "mcpServers": {\n        "x": {"url": "http://127.0.0.1:1"}\n    }\n}\n',
    },
  },
  'minified files': {
    clients: ['claude', 'gemini'],
    files: {
      '.claude/settings.json': JSON.stringify({ hooks: { PostToolUse: [THEIRS] } }),
      'project/.mcp.json': '{"a":{"b":[1,2,3]}}',
      '.gemini/settings.json': '{"hooks":{"AfterTool":[]}}',
    },
  },
  comments: {
    clients: ['claude', 'opencode'],
    files: {
      '.claude/settings.json':
        '// mine\n{\n  // model\n  "model": "opus", // best\n  /* hooks: none */\n  "hooks": { // here\n  }\n}\n// end\n',
      'project/.opencode/opencode.json': '{\n  // servers\n  "mcp": { /* none yet */ },\n  "theme": "x" // last\n}\n',
    },
  },
  'comments in empty containers': {
    clients: ['claude', 'gemini'],
    files: {
      '.claude/settings.json': '{\n  "hooks": {\n    "PostToolUse": [\n      // none yet\n    ]\n  }\n}',
      '.gemini/settings.json': '{ /* none */ }',
    },
  },
  'a file with comments under its other name': {
    clients: ['opencode'],
    files: { 'project/.opencode/opencode.jsonc': '{\n  // mine\n  "theme": "x",\n}\n' },
  },
  'trailing commas': {
    clients: ['claude', 'gemini'],
    files: {
      '.claude/settings.json': '{\n  "hooks": {\n    "PostToolUse": [\n      {"hooks": [],},\n    ],\n  },\n}\n',
      '.gemini/settings.json': '{"a": 1,}',
    },
  },
  tabs: {
    clients: ['claude', 'opencode'],
    files: {
      '.claude/settings.json': '{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
      'project/.opencode/opencode.json': '{\n\t"mcp": {\n\t\t"x": {}\n\t}\n}',
    },
  },
  'Windows line ends': {
    clients: ['claude', 'codex', 'kimi'],
    files: {
      '.claude/settings.json': '{\r\n  "a": 1 // one\r\n}\r\n',
      '.codex/config.toml': 'a = 1\r\n[b]\r\nc = 2\r\n',
      '.kimi-code/config.toml': '[[hooks]]\r\nevent = "Stop"\r\ncommand = "theirs"\r\n',
    },
  },
  'byte order marks': {
    clients: ['claude', 'codex', 'kimi'],
    files: {
      '.claude/settings.json': '\ufeff{\n  "a": 1\n}\n',
      '.codex/config.toml': '\ufeffa = 1\n',
      '.kimi-code/config.toml': '\ufeffa = 1\n',
      '.kimi-code/mcp.json': '\ufeff{}',
    },
  },
  'no line end at the end': {
    clients: ['codex', 'kimi', 'gemini'],
    files: {
      '.codex/config.toml': 'a = 1',
      '.kimi-code/config.toml': '[[hooks]]\nevent = "Stop"\ncommand = "theirs"',
      '.gemini/settings.json': '{\n  "a": 1\n}',
    },
  },
  'odd blanks': {
    clients: ['claude', 'gemini'],
    files: {
      '.claude/settings.json': '\n\n  {   "a"  :  1   }   \n\n',
      '.gemini/settings.json': '{\n\n\n}\n\n',
    },
  },
  'a full Codex': {
    clients: ['codex'],
    files: {
      '.codex/config.toml':
        'model = "gpt"\n# mine\n[projects."/abs"]\ntrust_level = "trusted"\n[[hooks.Stop]]\nmatcher = "x"\n[mcp_servers.other]\ncommand = "y"\nenv = { A = "b" }\n\n\n',
      '.codex/hooks.json': JSON.stringify({ hooks: { Stop: [THEIRS] } }, null, 4),
    },
  },
  'a full Kimi': {
    clients: ['kimi'],
    files: {
      '.kimi/mcp.json': '{"mcpServers":{}}',
      '.kimi-code/mcp.json': '{}',
      '.kimi-code/config.toml':
        'default_model = "k2" # mine\n\n[providers.x]\ntype = "openai"\n\n[[hooks]]\nevent = "Stop"\ncommand = "theirs"\ntimeout = 20\n\n# the end\n',
    },
  },
  'empty texts': { clients: ['codex', 'kimi'], files: { '.codex/config.toml': '', '.kimi-code/config.toml': '\n\n' } },
  'names that look like ours': {
    clients: ['claude', 'codex'],
    files: {
      'project/.mcp.json':
        '{"c2c": {}, "parley": 1, "x": {"mcpServers": {"c2c": 1, "parley": 2}}, "note": "c2c-inbox-check.sh"}',
      '.codex/config.toml': '[mcp_servers.c2c-old]\ncommand = "y"\n[other.mcp_servers.c2c]\na = 1\n',
    },
  },
  'other alphabets': {
    clients: ['claude', 'kimi'],
    files: {
      '.claude/settings.json': '{"naïve — ✓ 漢字 😀": "\\ud83d\\ude00"}',
      '.kimi-code/config.toml': '"naïve 漢字" = "😀"\n',
    },
  },
  'things of one’s own beside ours': {
    clients: ['claude', 'opencode'],
    files: {
      '.claude/hooks/mine.sh': '#!/bin/sh\n',
      '.config/opencode/plugins/mine.ts': 'export default async () => ({});\n',
      'project/.opencode/plugins/mine.ts': '',
      '.local/share/c2c/instances/x/config.json': '{}',
    },
  },
  'copies of earlier days': {
    clients: ['claude'],
    files: { '.claude/settings.json': '{"a": 1}', '.claude/settings.json.before-parley': 'older' },
  },
};
