import { badRequest, Declined } from './relay-phrases.ts';
import { isThisMachine, isOurOrigin } from '../../wire/origin.ts';
import type { Connections, RelayDeps } from './relay-deps.ts';
const SECRET_NAMES = /token|auth|bearer|secret|passw|api_?key/i;
const LOOKS_LIKE_A_TOKEN = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/i;
const LOOPBACK = /^(?:::ffff:)?127\.|^::1$/i;
/** Addresses that no one has on the internet. In a container the proxy of its machine calls from one of them. */
const PRIVATE = /^(?:::ffff:)?(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.|^f[cd][\da-f]{2}:/i;

/** The path as routes know it. An address with a slash at its end makes two of them. [BC-B5.23] */
export function pathOf(url: string): string {
  const from = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3);
  const query = url.indexOf('?', from);
  const path = url.slice(from, query === -1 ? undefined : query);
  return path.startsWith('//') ? path.replace(/^\/+/, '/') : path;
}

/** No token of ours is longer; a room's token is its owner's choice. */
const LONGEST_TOKEN = 1024;

/** The token of a request: after `Bearer`, in any case, or bare. Two of them would mean two callers. spec: relay#tokens */
export function tokenOf(request: Request): string | null {
  const header = request.headers.get('authorization');
  if (header === null) return null;
  if (/,\s*Bearer\s/i.test(header)) throw badRequest('send one Authorization header, with one token');
  const token = header.replace(/^Bearer\s+/i, '').trim();
  return token === '' || token.length > LONGEST_TOKEN ? null : token;
}

/** What was asked for behind the question mark. */
export function queryOf(request: Request): URLSearchParams {
  const at = request.url.indexOf('?');
  return new URLSearchParams(at === -1 ? '' : request.url.slice(at + 1));
}

/** Addresses end up in logs of proxies and in histories: a token must not be there. spec: relay#guards */
export function refuseTokenInAddress(request: Request): void {
  if (!request.url.includes('?')) return;
  for (const [name, value] of queryOf(request)) {
    if (!SECRET_NAMES.test(name) && !LOOKS_LIKE_A_TOKEN.test(value)) continue;
    throw badRequest(
      'put the token into the Authorization header, never into the address; replace this token: it may be logged',
    );
  }
}

/** On a loopback address a web page could reach us under a name of its own. spec: relay#guards */
export function refuseStrangeHost(request: Request, loopback: { port: () => number }): void {
  const host = request.headers.get('host');
  if (host !== null && !isThisMachine(host, loopback.port())) {
    throw new Declined(
      403,
      'this relay serves its own machine only: call it 127.0.0.1 or localhost, or start it with --host or --public',
    );
  }
  const origin = request.headers.get('origin');
  if (origin !== null && !isOurOrigin(origin, loopback.port())) {
    throw new Declined(403, 'this relay answers no web page of another origin');
  }
}

/**
 * Where a request comes from. Behind a proxy it is the last address that the proxy itself has added; anyone who cannot be that proxy,
 * because it calls from afar, is believed nothing. spec: relay#rate
 */
export function addressOf(request: Request, connections: Connections | undefined, proxied: boolean): string {
  const peer = connections?.requestIP?.(request)?.address || 'unknown';
  if (!proxied || !(LOOPBACK.test(peer) || PRIVATE.test(peer))) return peer;
  return request.headers.get('x-forwarded-for')?.split(',').at(-1)?.trim() || peer;
}

/** True if a program of this machine asks by itself, and no proxy for somebody else. */
export function isFromHere(request: Request, connections: Connections | undefined, deps: RelayDeps): boolean {
  if (deps.settings.proxied || request.headers.has('x-forwarded-for') || request.headers.has('forwarded')) return false;
  return LOOPBACK.test(addressOf(request, connections, false));
}
