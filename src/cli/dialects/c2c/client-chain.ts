import { ancestors, isClient } from '../../../sessions/process.ts';
import type { Ancestor } from '../../../sessions/process.ts';

/** What runs the script of a client. */
const INTERPRETERS = /^(node|bun|deno|python[\d.]*|(ba|da|z|k)?sh)$/;

/**
 * The processes from our parent up to the client that started us, and on to what started that client; up to the next client. What runs
 * in a shell of a client, or in a daemon that a client left, belongs to the nearer one only.
 */
export function ownClientChain(): number[] {
  const chain: number[] = [];
  let [client, below]: (Ancestor | undefined)[] = [];
  for (const one of ancestors()) {
    if (isClient(one)) {
      // npm's script waits for the program that it started: the two are one client.
      if (client && !(client === below && isScript(one))) break;
      client = one;
    }
    chain.push(one.pid);
    below = one;
  }
  return chain;
}

function isScript({ words: [program = ''] }: Ancestor): boolean {
  return INTERPRETERS.test(program.split('/').at(-1) ?? '');
}
