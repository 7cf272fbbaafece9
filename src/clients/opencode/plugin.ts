import plugin from '../../../plugins/opencode/parley.ts' with { type: 'text' };
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from '../../platform/files.ts';
import { windowFolder } from './window.ts';

/** A file that `parley install` adds. */
interface PluginFile {
  path: string;
  what: string;
  text: string;
}

/** The text of the plugin. `home`: a home of Parley that is not the default one. */
export function parleyPluginText(home?: string): string {
  if (home === undefined) return String(plugin);
  return String(plugin).replace(/^const HOME = .*;$/m, () => `const HOME = ${JSON.stringify(home)};`);
}

/** Writes the plugin for windows that `parley run` starts into the folder of its own files, and returns its path. */
export function writePlugin(home: string): string {
  const folder = windowFolder(home);
  const path = `${folder}/plugin.ts`;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const text = parleyPluginText();
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) replaceFile(path, text);
  return path;
}

/** Is OpenCode's plugin package in this settings folder? OpenCode fetches the package before it loads the first plugin. */
export function hasPackage(folder: string): boolean {
  return existsSync(join(folder, 'node_modules'));
}

/**
 * Files that OpenCode 1.18.33 accepts in place of its plugin package: a folder `node_modules` and a lock file that names it. Without them the
 * next start takes half a minute, or well over a minute without network. Our plugin does not use the package. If another plugin uses it, that
 * removes the lock file, and OpenCode fetches the package at its next start.
 */
export function packageFiles(folder: string): PluginFile[] {
  if (hasPackage(folder) || existsSync(join(folder, 'package-lock.json'))) return [];
  const own = join(folder, 'node_modules', PACKAGE);
  const dependencies = { [PACKAGE]: '*' };
  const packages = { '': { dependencies }, [`node_modules/${PACKAGE}`]: { version: '0.0.0' } };
  const exports = { '.': './index.js', './*': './index.js' };
  const file = (path: string, text: string): PluginFile => ({ path, what: 'plugin package', text });
  return [
    file(join(folder, 'package-lock.json'), `${JSON.stringify({ lockfileVersion: 3, packages }, null, 2)}\n`),
    file(
      join(own, 'package.json'),
      `${JSON.stringify({ name: PACKAGE, version: '0.0.0', type: 'module', exports })}\n`,
    ),
    file(join(own, 'index.js'), STUB),
  ];
}

const PACKAGE = '@opencode-ai/plugin';
const STUB = `// Written by \`parley install opencode\`: OpenCode then does not fetch ${PACKAGE} at its next start, which the plugin of
// Parley does not need. A plugin that needs it gets it: without the lock file, OpenCode fetches the package at its next start.
import { rmSync } from 'node:fs';

export const tool = undefined;

rmSync(new URL('../../../package-lock.json', import.meta.url), { force: true });
throw new Error('${PACKAGE} is not here yet; start OpenCode once more, and it fetches the package');
`;
