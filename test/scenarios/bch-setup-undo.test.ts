import { describe, expect, it } from 'bun:test';
import { existsSync, symlinkSync, writeFileSync } from 'node:fs';
import { ALL_CLIENTS, setUp, SetupMachine } from '../support/setup-home.ts';

const THEIR_HOOK = { hooks: [{ type: 'command', command: 'echo theirs' }] };

/** Homes as they are found: each file as its program, its user or an editor left it. */
const HOMES: Record<string, Record<string, string>> = {
  'nothing in it': {},
  'empty folders': ALL_CLIENTS,
  'empty objects': { '.claude/settings.json': '{}', '.claude.json': '{}\n', '.gemini/settings.json': '{ }' },
  'empty containers': {
    '.claude/settings.json': '{"hooks": {"UserPromptSubmit": []}}',
    '.claude.json': '{\n  "mcpServers": {}\n}',
  },
  'containers with other things': {
    '.claude/settings.json': '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
    '.claude.json': '{"mcpServers":{"x":{"command":"y"}}}',
  },
  'hooks of another tool': {
    '.claude/settings.json': JSON.stringify(
      { model: 'opus', hooks: { UserPromptSubmit: [THEIR_HOOK], Stop: [THEIR_HOOK] } },
      null,
      2,
    ),
  },
  'a minified file': {
    '.claude/settings.json': JSON.stringify({ hooks: { UserPromptSubmit: [THEIR_HOOK] } }),
    '.claude.json': '{"a":{"b":[1,2,3]}}',
  },
  comments: {
    '.claude/settings.json': '// mine\n{\n  // model\n  "model": "opus", // best\n  /* hooks: none */\n}\n// end\n',
  },
  'comments in empty containers': {
    '.claude/settings.json': '{\n  "hooks": {\n    // none yet\n  }\n}',
    '.gemini/settings.json': '{ /* none */ }',
  },
  'trailing commas': {
    '.claude/settings.json': '{\n  "hooks": {\n    "UserPromptSubmit": [\n      {"hooks": [],},\n    ],\n  },\n}\n',
    '.gemini/settings.json': '{"a": 1,}',
  },
  tabs: {
    '.claude/settings.json': '{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
    '.claude.json': '{\n\t"mcpServers": {\n\t\t"x": {}\n\t}\n}',
  },
  'four blanks': { '.gemini/settings.json': '{\n    "mcpServers": {\n        "x": {}\n    }\n}\n' },
  'Windows line ends': {
    '.claude/settings.json': '{\r\n  "a": 1 // one\r\n}\r\n',
    '.codex/config.toml': 'a = 1\r\n[b]\r\nc = 2\r\n',
    '.codex/AGENTS.md': '# Mine\r\n',
  },
  'byte order marks': {
    '.claude/settings.json': '\ufeff{\n  "a": 1\n}\n',
    '.codex/config.toml': '\ufeffa = 1\n',
    '.gemini/GEMINI.md': '\ufeff# Mine\n',
  },
  'no line end at the end': {
    '.claude.json': '{\n  "a": 1\n}',
    '.codex/config.toml': 'a = 1',
    '.codex/AGENTS.md': 'Mine',
    '.gemini/GEMINI.md': 'Mine',
  },
  'odd blanks': { '.claude/settings.json': '\n\n  {   "a"  :  1   }   \n\n', '.gemini/settings.json': '{\n\n\n}\n\n' },
  'a full Codex': {
    '.codex/config.toml':
      'model = "gpt"\n# mine\n[projects."/abs"]\ntrust_level = "trusted"\n[[hooks.Stop]]\nmatcher = "x"\n[mcp_servers.other]\ncommand = "y"\nenv = { A = "b" }\n\n\n',
  },
  'empty texts': { '.codex/config.toml': '', '.codex/AGENTS.md': '', '.gemini/GEMINI.md': '\n\n' },
  'keys that look like ours': {
    '.claude.json': '{"backchannel": {}, "x": {"mcpServers": {"backchannel": 1}}, "note": "drain --hook"}',
  },
  'other alphabets': {
    '.claude/settings.json': '{"naïve — ✓ 漢字 😀": "\\ud83d\\ude00"}',
    '.codex/AGENTS.md': '漢字 😀\n',
  },
  'a skill of one’s own': {
    '.claude/skills/mine/SKILL.md': '---\nname: mine\n---\n',
    '.claude/skills/backchannel/notes.md': 'x',
  },
};

describe('setup and its undoing', () => {
  it.each(Object.entries(HOMES))('leave every byte of a home with %s as it was', async (_name, files) => {
    const machine = new SetupMachine().with(files);
    for (const binary of ['claude', 'codex', 'gemini']) machine.fake(binary);
    const before = machine.snapshot();
    const said = await machine.said(['setup', '--wake'], { as: 'me' });
    expect(said).not.toContain('already');
    expect(machine.snapshot()).not.toEqual(before);
    for (const [path, text] of Object.entries(files)) {
      // Nothing that was there is lost or moved, whatever came in between.
      if (!path.endsWith('/')) expect(isWithin(text, machine.read(path))).toBe(true);
    }
    await machine.said(['setup', '--uninstall'], { as: 'me' });
    expect(machine.snapshot()).toEqual(before);
    expect(machine.called.slice(2)).toEqual([
      'systemctl --user disable --now parley-wake.service',
      'systemctl --user daemon-reload',
    ]);
  });

  it('follow links, also two that lead to one file', async () => {
    const machine = new SetupMachine().with({
      ...ALL_CLIENTS,
      'dotfiles/AGENTS.md': '# Mine\n',
      'dotfiles/claude.json': '{}',
    });
    symlinkSync('../dotfiles/AGENTS.md', machine.at('.codex/AGENTS.md'));
    symlinkSync('../dotfiles/AGENTS.md', machine.at('.gemini/GEMINI.md'));
    symlinkSync('dotfiles/claude.json', machine.at('.claude.json'));
    const before = machine.snapshot();
    const said = await machine.said(['setup'], { as: 'me' });
    expect(said).toContain('[gemini-cli] a section on mail is already present in GEMINI.md');
    expect(machine.read('dotfiles/AGENTS.md').match(/backchannel: begin/g)).toHaveLength(1);
    await machine.said(['setup', '--uninstall'], { as: 'me' });
    expect(machine.snapshot()).toEqual(before);
  });

  it('leave what others did in between', async () => {
    const { machine } = await setUp({ ...ALL_CLIENTS, '.claude.json': '{"first": 1}' });
    // As Claude Code writes its own file: whole, and often.
    writeFileSync(
      machine.at('.claude.json'),
      JSON.stringify({ ...machine.json('.claude.json'), numStartups: 7 }, null, 2),
    );
    writeFileSync(machine.at('.codex/config.toml'), `model = "o4"\n${machine.read('.codex/config.toml')}`);
    writeFileSync(machine.at('.gemini/GEMINI.md'), machine.read('.gemini/GEMINI.md').replace('stranger', 'STRANGER'));
    const said = await machine.said(['setup', '--uninstall'], { as: 'me' });
    expect(machine.read('.claude.json')).toBe('{\n  "first": 1,\n  "numStartups": 7\n}');
    expect(machine.read('.codex/config.toml')).toBe('model = "o4"\n');
    expect(machine.read('.gemini/GEMINI.md')).toContain('STRANGER');
    expect(said).toContain(`${machine.at('.gemini/GEMINI.md')} was changed since; it is left unchanged`);
    expect(said).toContain(`is kept as ${machine.at('.claude.json.before-parley')}`);
    expect(existsSync(machine.at('.claude/settings.json'))).toBe(false);
    expect(await machine.said(['setup', '--uninstall'], { as: 'me' })).toStartWith('[none] nothing was added');
  });

  it('say what would be removed, and remove nothing, when asked for that', async () => {
    const { machine } = await setUp(ALL_CLIENTS);
    const before = machine.snapshot();
    expect((await machine.said(['setup', '--uninstall', '--dry-run'])).match(/ would be removed from /g)).toHaveLength(
      7,
    );
    expect(machine.snapshot()).toEqual(before);
  });
});

/** Do all characters of one text stand in another, in their order? */
function isWithin(text: string, whole: string): boolean {
  let found = 0;
  for (let at = 0; at < whole.length; at += 1) if (whole[at] === text[found]) found += 1;
  return found === text.length;
}
