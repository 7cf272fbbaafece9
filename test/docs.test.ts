import { Glob } from 'bun';
import { describe, expect, it } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { name, version } from '../package.json';
import { PARLEY_COMMANDS } from '../src/cli/table.ts';

const pages = [...new Glob('*.md').scanSync(), ...new Glob('docs/**/*.md').scanSync()].sort();
const texts = new Map(pages.map((page) => [page, readFileSync(page, 'utf8')]));

/** Words that meant something to us alone. Names of files on disk, such as ledger.db.tray, are formats and stay. */
const HOUSE_WORDS =
  /(?<![./\w-])(?:back[ -]room|clerk|errand|in-tray|lobby|badge|courier|shipment|gift|hush|breath|keeper|witness|twin|whoever|anew|shelf)s?(?![\w/-])/gi;

describe('the documentation', () => {
  it('was read at all', () => {
    expect(pages).toContain('README.md');
    expect(pages.filter((page) => page.startsWith('docs/protocol/')).length).toBeGreaterThan(4);
  });

  it('has an anchor for everything that the code cites', () => {
    const cited = [...new Glob('src/**/*.ts').scanSync()].flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(/spec: ([a-z0-9-]+)#([a-z0-9-]+)/g)].map(
        ([, page = '', anchor = '']) => ({ path, page, anchor }),
      ),
    );
    expect(cited.length).toBeGreaterThan(25);
    const missing = cited.filter(
      ({ page, anchor }) => !texts.get(`docs/protocol/${page}.md`)?.includes(`<a id="${anchor}"></a>`),
    );
    expect(missing.map(({ path, page, anchor }) => `${path}: ${page}#${anchor}`)).toEqual([]);
  });

  it('is named in comments only by files that exist', () => {
    const names = new Set(
      [...new Glob('{src,test,bench,plugins,examples}/**/*.ts').scanSync()].map((path) => path.split('/').at(-1)),
    );
    const gone = [...new Glob('{src,bench}/**/*.ts').scanSync()].flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(/^\s*(?:\/\/|\/?\*).*?(?<![\w/*-])([a-z][a-z-]+\.ts)\b/gm)]
        .map(([, name = '']) => name)
        .filter((name) => !names.has(name))
        .map((name) => `${path}: ${name}`),
    );
    expect(gone).toEqual([]);
  });

  it('links only to what is there', () => {
    const links = [...texts].flatMap(([page, text]) => linksIn(text).map((link) => ({ page, link })));
    expect(links.length).toBeGreaterThan(40);
    expect(
      links.filter(({ page, link }) => !leadsSomewhere(page, link)).map(({ page, link }) => `${page}: ${link}`),
    ).toEqual([]);
  });

  it('installs the package of this version', () => {
    expect(texts.get('README.md')).toContain(`npm install -g ./${name}-${version}.tgz`);
    expect(texts.get('SECURITY.md')).toContain(`This is about version ${version}:`);
    expect(texts.get('CHANGELOG.md')).toMatch(
      new RegExp(`^## (?:\\[Unreleased\\] )?${version.replaceAll('.', '\\.')}$`, 'm'),
    );
  });

  it('gives each anchor once', () => {
    const twice = [...texts].flatMap(([page, text]) => {
      const anchors = [...text.matchAll(/<a id="([^"]+)"/g)].map(([, anchor = '']) => anchor);
      return anchors.filter((anchor, at) => anchors.indexOf(anchor) !== at).map((anchor) => `${page}#${anchor}`);
    });
    expect(twice).toEqual([]);
  });

  it('names no command that does not exist', () => {
    const known = new Set([
      ...PARLEY_COMMANDS.map((row) => row.name),
      'bch',
      'c2c',
      'ccc',
      'help',
      '--version',
      '--help',
    ]);
    const named = [...texts]
      .filter(([page]) => page === 'README.md' || page.startsWith('docs/guides/'))
      .flatMap(([page, text]) => commandsIn(text).map((name) => ({ page, name })));
    expect(named.length).toBeGreaterThan(40);
    expect(named.filter(({ name }) => !known.has(name)).map(({ page, name }) => `${page}: parley ${name}`)).toEqual([]);
  });

  it('says things in plain words, as the code does', () => {
    const sources = ['src', 'plugins', 'bench', 'scripts', 'examples'].flatMap((folder) => [
      ...new Glob(`${folder}/**/*.{ts,mjs,md}`).scanSync(),
    ]);
    const found = [...sources, ...pages].flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(HOUSE_WORDS)].map(([word]) => `${path}: ${word}`),
    );
    expect(found).toEqual([]);
  });

  it('names no path of the machine on which it was written', () => {
    const paths = [...texts].flatMap(([page, text]) =>
      [...text.matchAll(/(?<![\w.])\/(?:root|work|tmp|var(?!\/lib\/parley-relay))\/\S*/g)].map(
        ([path]) => `${page}: ${path}`,
      ),
    );
    expect(paths).toEqual([]);
  });
});

/** Links and pictures of a page that lead into this project. Code is no link. */
function linksIn(text: string): string[] {
  const prose = text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '');
  const found = [...prose.matchAll(/\]\(([^)\s]+)\)/g), ...prose.matchAll(/(?:src|href)="([^"]+)"/g)];
  return found.map(([, link = '']) => link).filter((link) => !/^[a-z]+:/.test(link));
}

function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(target)) return false;
  return anchor === undefined || anchorsOf(readFileSync(target, 'utf8')).has(anchor);
}

/** Explicit anchors, and those that are made from headings. */
function anchorsOf(text: string): Set<string> {
  const explicit = [...text.matchAll(/<a id="([^"]+)"/g)].map(([, anchor = '']) => anchor);
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );
  return new Set([...explicit, ...headings]);
}

/** What is called as `parley <word>` in code, inline or in a block: a command begins a line there or follows a shell's sign. */
function commandsIn(text: string): string[] {
  const blocks = [...text.matchAll(/^```[\s\S]*?^```/gm)].map(([block]) => block);
  const inline = [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
  const calls = /(?:^|[\s;|&$("'`/])parley +((?:--)?[a-z][a-z0-9-]*)/gm;
  return [...blocks, ...inline].flatMap((code) => [...code.matchAll(calls)].map(([, name = '']) => name));
}
