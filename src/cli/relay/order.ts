import { resolve } from 'node:path';
import { Refusal } from '../../protocol/refusal.ts';
import type { Values } from '../command.ts';
import { countFrom } from '../input.ts';
import { spanMs } from '../span.ts';
import { tokenFrom, tokenWarning } from '../token.ts';
import type { Env } from '../env.ts';
import type { RELAY_OPTIONS } from './options.ts';

export const DEFAULT_PORT = 7117;
const DEFAULT_RATE = 100_000;
const DEFAULT_QUOTA = 100_000;
const DEFAULT_AGENTS = 10_000;
const DEFAULT_WAIT = '30d';
/** A room token that can be guessed is none. Ours have 32 characters. */
const SHORT_TOKEN = 16;

/** How a relay should be run. */
export interface RelayOrder {
  /** The Backchannel home whose rooms it serves. */
  root: string;
  host: string;
  port: number;
  /** Where a proxy on this machine offers it, if one does. */
  publicUrl: string | null;
  token: string | null;
  /** The token was given by `--token`. */
  tokenInArguments: boolean;
  adminToken: string | null;
  tls: { cert: string; key: string } | null;
  rate: { perMinute: number } | null;
  quota: { waiting: number };
  /** Per room. */
  mostAgents: number;
  keepWaitingMs: number | null;
  bodyLimit: number;
  durability: 'normal' | 'full';
}

/** The order as it was given by options and environment. What would let strangers in unasked is refused here. */
export function relayOrder(
  values: Values<typeof RELAY_OPTIONS>,
  env: Env,
  cwd: string,
  house: Pick<RelayOrder, 'root' | 'bodyLimit' | 'durability'>,
): RelayOrder {
  const order: RelayOrder = {
    ...house,
    host: (values.host ?? '127.0.0.1').replace(/^\[(.*)\]$/, '$1'),
    port: portFrom(values.port),
    publicUrl: values.public === undefined ? null : publicUrlFrom(values.public),
    token: tokenFrom(values, cwd, env['BACKCHANNEL_TOKEN']) || null,
    tokenInArguments: Boolean(values.token),
    adminToken: env['BACKCHANNEL_ADMIN_TOKEN'] || null,
    tls: tlsFrom(values['tls-cert'], values['tls-key'], cwd),
    rate: values.rate === 'off' ? null : { perMinute: countFrom(values.rate, DEFAULT_RATE) },
    quota: { waiting: values.quota === 'off' ? Infinity : countFrom(values.quota, DEFAULT_QUOTA) },
    mostAgents: values.agents === 'off' ? Infinity : countFrom(values.agents, DEFAULT_AGENTS),
    keepWaitingMs: waitFrom(values['keep-waiting'] ?? DEFAULT_WAIT),
  };
  refuseOpenToStrangers(order);
  return order;
}

/** True if only programs of this machine can reach this address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

/** What is allowed, and should be thought about. */
export function warningsAbout({ host, token, tokenInArguments, tls, publicUrl, adminToken }: RelayOrder): string[] {
  const reachable = !isLoopback(host);
  const others = reachable || publicUrl !== null;
  return [
    ...(tokenInArguments ? [tokenWarning('BACKCHANNEL_TOKEN')] : []),
    ...(reachable && !tls
      ? [`${host} without TLS: tokens and mail cross the network in clear; give --tls-cert and --tls-key`]
      : []),
    ...(publicUrl?.startsWith('http:')
      ? [`${publicUrl} is not https: tokens and mail cross the network in clear`]
      : []),
    ...(others && token !== null && token.length < SHORT_TOKEN
      ? [`the room token has only ${token.length} characters; \`openssl rand -hex 16\` makes a good one`]
      : []),
    ...(others && !adminToken
      ? ['anybody who reaches it may make rooms; set BACKCHANNEL_ADMIN_TOKEN to keep that to yourself']
      : []),
  ];
}

function refuseOpenToStrangers({ host, publicUrl, token }: RelayOrder): void {
  const where = publicUrl ?? (isLoopback(host) ? null : host);
  if (where === null || token !== null) return;
  throw new Refusal(
    'invalid_request',
    `a relay on ${where} without a room token would let anybody in; set BACKCHANNEL_TOKEN (\`openssl rand -hex 16\` makes one) or give --token-file${publicUrl ? '' : ', or stay on 127.0.0.1'}`,
  );
}

function portFrom(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PORT;
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new Refusal('invalid_request', `"${text}" is no port; write a number from 0 to 65535`);
}

function publicUrlFrom(text: string): string {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url.href.replace(/\/+$/, '');
  throw new Refusal('invalid_request', `"${text}" is no address for --public; write https://relay.example.org`);
}

function tlsFrom(cert: string | undefined, key: string | undefined, cwd: string): RelayOrder['tls'] {
  if (cert === undefined && key === undefined) return null;
  if (cert === undefined || key === undefined)
    throw new Refusal('invalid_request', 'TLS needs both: give --tls-cert and --tls-key');
  return { cert: resolve(cwd, cert), key: resolve(cwd, key) };
}

function waitFrom(text: string): number | null {
  if (/^(\d{1,6}[dhm]|forever)$/.test(text)) return spanMs(text);
  throw new Refusal('invalid_request', `"${text}" is no span for --keep-waiting; write 30d, 12h, 5m or forever`);
}
