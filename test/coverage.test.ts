import { describe, expect, it } from 'bun:test';
import { REQUIREMENTS, SYSTEMS } from './requirements.ts';
import { citationsIn, coverage, readCitations } from './requirements/citations.ts';
import { render } from './requirements/report.ts';

const { files, citations } = await readCitations(`${import.meta.dir}/..`);

describe('the tests of this project', () => {
  it('are found', () => {
    expect(files).toContain('test/coverage.test.ts');
  });

  it('cite only requirements that exist', () => {
    const unknown = citations.filter(({ id }) => !Object.hasOwn(REQUIREMENTS, id));
    expect(unknown.map(({ id, file }) => `${file} cites ${id}`)).toEqual([]);
  });
});

describe('the requirements', () => {
  it('each have a sentence of at most 240 characters', () => {
    const wrong = Object.entries(REQUIREMENTS).filter(([, text]) => text.trim() === '' || text.length > 240);
    expect(wrong).toEqual([]);
  });

  // A repeated key would silently replace the first, so the sources are counted and not the objects.
  it('each have an id of their own, with the prefix of their system', async () => {
    for (const { name, prefix } of SYSTEMS) {
      const source = await Bun.file(`${import.meta.dir}/requirements/${name}.ts`).text();
      const written = [...source.matchAll(/^ {2}'([^']+)':/gm)].map(([, id = '']) => id);
      expect(written).toEqual(Object.keys(REQUIREMENTS).filter((id) => id.startsWith(prefix)));
    }
  });
});

// Not `it.each`: its rows are part of a title, and these samples would count as citations themselves.
const CITING: [name: string, source: string, ids: string[]][] = [
  ['a title with one id', `it('works [BC-6]', () => {});`, ['BC-6']],
  ['a title with several ids', `test('works [BC-6, C2A-60a]', () => {});`, ['BC-6', 'C2A-60a']],
  ['a template', 'it(`works for ${names.join(`, `)} [BC-B5.1]`, () => {});', ['BC-B5.1']],
  ['a title on its own line', `it(\n  'works [BC-6]',\n  () => {},\n);`, ['BC-6']],
  ['a title in two pieces', `it('works in full ' + '[BC-6]', () => {});`, ['BC-6']],
  ['rows in place', `it.each([['a [BC-1]', 1], ['b [BC-2]', 2]])('%s', () => {});`, ['BC-1', 'BC-2']],
  ['rows in a constant', `const ROWS: Row[] = [['a [BC-1]', 1]];\nit.each<Row>(ROWS)('%s', () => {});`, ['BC-1']],
  ['a test under a condition', `it.skipIf(!linux)('works [BC-6]', () => {});`, ['BC-6']],
  ['a runner of its own', `const onLinux = linux ? it : it.skip;\nonLinux('works [BC-6]', () => {});`, ['BC-6']],
  ['a title with a misspelt id', `it('works [BC-6, BC6, BC-7x]', () => {});`, ['BC-6', 'BC6', 'BC-7x']],
];

const NOT_CITING: [name: string, source: string][] = [
  ['a comment', `// it('works [BC-6]', () => {});`],
  ['the title of a group', `describe('mail [BC-6]', () => {});`],
  ['text inside a test', `it('works', () => expect(text).toBe('[BC-6]'));`],
  ['a pattern and what it is tried on', `if (/['"(]/.test('[BC-6]')) done();`],
  ['other brackets in a title', `it('shows [URGENT] in [UTF-8]', () => {});`],
];

describe('a citation', () => {
  for (const [name, source, ids] of CITING) {
    it(`is read from ${name}`, () => {
      expect(citationsIn(source, 'some.test.ts').map(({ id }) => id)).toEqual(ids);
    });
  }

  for (const [name, source] of NOT_CITING) {
    it(`is not read from ${name}`, () => {
      expect(citationsIn(source, 'some.test.ts')).toEqual([]);
    });
  }

  it('in a test that never runs proves nothing', () => {
    const skipped = citationsIn(`it.skip('a [BC-1]', () => {}); it.todo('b [BC-2]');`, 'some.test.ts');
    expect(skipped.map(({ id, proves }) => [id, proves])).toEqual([
      ['BC-1', false],
      ['BC-2', false],
    ]);
    expect(coverage(skipped)['backchannel']?.proven).toBe(0);
  });
});

describe('the report', () => {
  const cited = coverage(citationsIn(`it('a [C2A-1]', f); it('b [C2A-1, C2A-2]', f);`, 'some.test.ts'));

  it('counts each proven requirement once', () => {
    expect(render(cited).split('\n')).toContain(`c2a 2 of ${cited['c2a']?.total} proven`);
  });

  it('lists what is unproven with its sentence', () => {
    expect(cited['c2a']?.unproven).not.toContain('C2A-1');
    expect(render(cited)).toMatch(/^ {2}C2A-10 +An acknowledged event leaves the pending list\.$/m);
  });
});
