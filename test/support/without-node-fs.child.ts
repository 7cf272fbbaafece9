import { plugin } from 'bun';
import { readFileSync, writeSync } from 'node:fs';

/**
 * Preloaded into a program, ends it as soon as it asks for node:fs or loads a file that imports it. Files are read with what was
 * loaded here.
 */
const transpiler = new Bun.Transpiler({ loader: 'ts' });
const getBuiltinModule = process.getBuiltinModule.bind(process);

process.getBuiltinModule = (name: string) => (name === 'node:fs' ? end('asked for') : getBuiltinModule(name));

plugin({
  name: 'without node:fs',
  setup(build) {
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
      const contents = readFileSync(path, 'utf8');
      const imports = transpiler.scanImports(contents.replace(/^#!.*/, ''));
      if (imports.some((one) => one.kind === 'import-statement' && one.path === 'node:fs')) end(`imported by ${path}`);
      return { contents, loader: 'ts' };
    });
  },
});

/** Killed, it leaves everything as it was. */
function end(how: string): never {
  writeSync(2, `node:fs is ${how}\n${new Error().stack ?? ''}\n`);
  process.kill(process.pid, 'SIGKILL');
  throw new Error('unreachable');
}
