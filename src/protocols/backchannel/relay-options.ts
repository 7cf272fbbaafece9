import { TOKEN_FILE } from '../../platform/input.ts';
import type { Options } from '../../core/command.ts';
/** The relay's options on the command line of `parley relay` and `parley up --with relay`. */
export const RELAY_OPTIONS = {
  host: { type: 'string', value: 'address', help: 'listen there (default 127.0.0.1: this machine only)' },
  port: { type: 'string', value: 'number', help: 'listen on this port (default 7117; 0: any free one)' },
  'token-file': {
    ...TOKEN_FILE,
    help: 'the token that new agents of the default room need, in a file or on stdin (-)',
  },
  token: {
    type: 'string',
    value: 'room token',
    help: 'the same, seen by everybody in `ps`; use --token-file or BACKCHANNEL_TOKEN',
  },
  public: { type: 'string', value: 'url', help: 'where a proxy on this machine offers the relay to others' },
  'tls-cert': { type: 'string', value: 'file', help: 'serve HTTPS with this certificate (PEM, the whole chain)' },
  'tls-key': { type: 'string', value: 'file', help: 'and this key; both are read again when they change' },
  rate: { type: 'string', value: 'n|off', help: 'requests per minute and agent (default 100000)' },
  quota: { type: 'string', value: 'n|off', help: 'waiting messages per mailbox (default 100000)' },
  agents: { type: 'string', value: 'n|off', help: 'agents per room (default 10000)' },
  'keep-waiting': { type: 'string', value: 'span', help: 'how long a message may wait: 30d (default), 12h, forever' },
  'json-logs': { type: 'boolean', help: 'log as JSON lines' },
} as const satisfies Options;
