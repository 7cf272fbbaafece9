import { join } from 'node:path';
import { hooksInJson, member, variables } from '../settings/client-settings.ts';
import type { ClientSettings } from '../settings/client-settings.ts';

/** Gemini CLI: one settings file has hooks and servers, of the user or of the project. Parley never marks a server as trusted. */
export const geminiSettings: ClientSettings = {
  name: 'gemini',
  title: 'Gemini CLI',
  binaries: ['gemini'],
  folders: ({ home }) => [join(home, '.gemini')],
  serverFiles: ({ home, project }, forProject) => [join(forProject ? project : home, '.gemini/settings.json')],
  server: (name, { command, args, env }) =>
    member(['mcpServers', name], { command, args: [...args], ...variables('env', env) }),
  hooks: ({ home }, hook) => hooksInJson(join(home, '.gemini/settings.json'), hook),
  // Not tested. Its only setting, `trust`, would allow every tool of the server.
  allowRule: null,
  // Not tested.
  skills: () => null,
  instructions: ({ home }) => join(home, '.gemini/GEMINI.md'),
  advice: () => [
    'Gemini CLI asks before it calls a tool of the server for the first time; that answer is yours to give',
  ],
};
