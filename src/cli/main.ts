#!/usr/bin/env bun
import { exitNow } from '../platform/libc.ts';
import { failed } from './failure.ts';
import { speak } from './table.ts';

/** The binary is also `bch`, `c2c`, `c2c-deliver-inbox` and `ccc`, by the name it is called with. `parley bch …` needs no second name: clients start it so. */
async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  switch (process.argv0.split('/').at(-1)) {
    case 'bch':
      return speak('bch', argv);
    case 'c2c':
      return speak('c2c', argv);
    case 'c2c-deliver-inbox':
      return speak('c2c', ['deliver-inbox', ...argv]);
    case 'ccc':
      return speak('ccc', argv);
    default:
      if (isName(argv[0])) return speak(argv[0], argv.slice(1));
      if (argv[0] === 'help' && isName(argv[1])) return speak(argv[1], ['help', ...argv.slice(2)]);
      return speak('parley', argv);
  }
}

function isName(word = ''): word is 'bch' | 'c2c' | 'ccc' {
  return ['bch', 'c2c', 'ccc'].includes(word);
}

exitNow(await main().then(() => Number(process.exitCode ?? 0), failed));
