// Everything the product promises, one sentence per id. Tests cite the ids in their titles; `npm run requirements`
// tells which promises no test has proven yet.
import { BACKCHANNEL } from './requirements/backchannel.ts';
import { C2A } from './requirements/c2a.ts';
import { C2C } from './requirements/c2c.ts';
import { CONTROL } from './requirements/control.ts';

/** The four systems Parley speaks for, and how the ids of each begin. */
export const SYSTEMS = [
  { name: 'backchannel', prefix: 'BC-' },
  { name: 'c2a', prefix: 'C2A-' },
  { name: 'c2c', prefix: 'C2C-' },
  { name: 'control', prefix: 'CCC-' },
] as const;

export const REQUIREMENTS: Record<string, string> = { ...BACKCHANNEL, ...C2A, ...C2C, ...CONTROL };
