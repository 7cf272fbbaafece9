import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { Injection } from './attention.ts';
import { quieter } from './decide.ts';

const ALL = { immediate: true, buffered: true, notify: true, tool_mailbox: true, digest: true };

describe('a mode that a harness lacks', () => {
  it.each([
    ['immediate', { ...ALL, immediate: false }, 'buffered'],
    ['immediate', { notify: true }, 'notify'],
    ['buffered', { ...ALL, buffered: false }, 'notify'],
    ['notify', { ...ALL, notify: false }, 'tool_mailbox'],
    ['tool_mailbox', {}, 'tool_mailbox'],
    ['digest', { ...ALL, digest: false }, 'silent'],
    ['silent', {}, 'silent'],
    ['buffered', ALL, 'buffered'],
    ['immediate', {}, 'tool_mailbox'],
  ] as const)('%s, where there is %j, becomes %s', (mode, can, expected) => {
    expect(quieter(mode, can)).toBe(expected);
  });

  it('never becomes a louder one, and always one that is possible', () => {
    const anyMode = fc.constantFrom(...Injection.inner.options);
    const anyAbility = fc.dictionary(anyMode, fc.boolean());
    fc.assert(
      fc.property(anyMode, anyAbility, (mode, can: Partial<Record<Injection, boolean>>) => {
        const found = quieter(mode, can);
        const modes = Injection.inner.options;
        expect(modes.indexOf(found)).toBeGreaterThanOrEqual(modes.indexOf(mode));
        expect(can[found] === true || found === 'tool_mailbox' || found === 'silent').toBe(true);
        if (can[mode]) expect(found).toBe(mode);
      }),
    );
  });
});
