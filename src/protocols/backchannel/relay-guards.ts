import { badRequest, Declined } from './relay-phrases.ts';
import { isThisMachine, isOurOrigin } from '../../wire/origin.ts';
import type { Connections, RelayDeps } from './relay-deps.ts';
const SECRET_NAMES = /token|auth|bearer|secret|passw|api_?key/i;
const LOOKS_LIKE_A_TOKEN = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/i;
const LOOPBACK = /^(?:::ffff:)?127\.|^::1$/i;
/** Private addresses. In a container, the proxy of the machine calls from one of them. */
const PRIVATE = /^(?:::ffff:)?(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.|^f[cd][\da-f]{2}:/i;

/** The path of a request. A base address that ends in a slash causes two slashes; this keeps one. [BC-B5.23] */
export function pathOf(url: string): string {
  const from = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3);
  const query = url.indexOf('?', from);
  const path = url.slice(from, query === -1 ? undefined : query);
  return path.startsWith('//') ? path.replace(/^\/+/, '/') : path;
}

/** The longest token that is accepted. Ours are shorter; the owner of a room chooses its token. */
const LONGEST_TOKEN = 1024;

/** The token of a request: after `Bearer`, in any letter case, or bare. Refuses two tokens. spec: relay#tokens */
export function tokenOf(request: Request): string | null {
  const header = request.headers.get('authorization');
  if (header === null) return null;
  if (/,\s*Bearer\s/i.test(header)) throw badRequest('send one Authorization header, with one token');
  const token = header.replace(/^Bearer\s+/i, '').trim();
  return token === '' || token.length > LONGEST_TOKEN ? null : token;
}

/** The query of a request. */
export function queryOf(request: Request): URLSearchParams {
  const at = request.url.indexOf('?');
  return new URLSearchParams(at === -1 ? '' : request.url.slice(at + 1));
}

/** Refuses a token in the address: addresses end up in logs of proxies and in histories. spec: relay#guards */
export function refuseTokenInAddress(request: Request): void {
  if (!request.url.includes('?')) return;
  for (const [name, value] of queryOf(request)) {
    if (!SECRET_NAMES.test(name) && !LOOKS_LIKE_A_TOKEN.test(value)) continue;
    throw badRequest(
      'put the token into the Authorization header, never into the address; replace this token: it may be logged',
    );
  }
}

/** Refuses strange host names on a loopback address: a web page could reach us under its own host name. spec: relay#guards */
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
 * The client address of a request. Behind a proxy it is the last address that the proxy has added. The header of a caller that is not on
 * this machine or a private network is ignored, because that caller cannot be the proxy. spec: relay#rate
 */
export function addressOf(request: Request, connections: Connections | undefined, proxied: boolean): string {
  const peer = connections?.requestIP?.(request)?.address || 'unknown';
  if (!proxied || !(LOOPBACK.test(peer) || PRIVATE.test(peer))) return peer;
  return request.headers.get('x-forwarded-for')?.split(',').at(-1)?.trim() || peer;
}

/** True if a program of this machine asks, and not a proxy for another client. */
export function isFromHere(request: Request, connections: Connections | undefined, deps: RelayDeps): boolean {
  if (deps.settings.proxied || request.headers.has('x-forwarded-for') || request.headers.has('forwarded')) return false;
  return LOOPBACK.test(addressOf(request, connections, false));
}
