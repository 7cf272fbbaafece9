import { Refusal } from '../../protocol/refusal.ts';

const LONGEST_LINE = 1000;

/** What became of a request without a usable answer: it never left this machine, it may have arrived, or it surely failed. */
export type Fate = 'never left' | 'unknown' | 'refused';

/** A relay's words may be anybody's: on a terminal they must not move the cursor, fill the screen or read otherwise than they are. */
function shown(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}

/** A relay that gave no usable answer, in one line that says what stands in the way. */
export class NoAnswer extends Refusal {
  constructor(
    readonly fate: Fate,
    message: string,
  ) {
    super('unreachable', shown(message));
  }
}

/** A relay's own "no", with its status: its words are meant for the user. */
export class RelayRefusal extends Refusal {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(codeFor(status, message), shown(message));
  }
}

/** True if the request never left this machine, so that it may be made again without a second thought. */
export function neverLeft(error: unknown): boolean {
  return error instanceof NoAnswer && error.fate === 'never left';
}

const CODES: Record<number, Refusal['code']> = {
  401: 'no_identity',
  403: 'not_yours',
  404: 'not_found',
  409: 'already_claimed',
  413: 'too_large',
  429: 'busy',
  501: 'not_in_this_version',
};

function codeFor(status: number, text: string): Refusal['code'] {
  if (/^unknown agent "|has no other subscribers/.test(text)) return 'unknown_recipient';
  if (status === 409 && text.startsWith('agent name "')) return 'name_taken';
  if (status === 409 && text.startsWith('key "')) return 'key_conflict';
  if (status === 409 && text.startsWith('nobody can tell')) return 'outcome_unknown';
  return CODES[status] ?? 'invalid_request';
}

/** What the system says when no connection comes about: nothing was sent. */
const NO_CONNECTION: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'its name cannot be looked up now',
  EHOSTUNREACH: 'no way to that host',
  ENETUNREACH: 'no network',
  EPROTO: 'it does not speak TLS on that port; is it http:// instead?',
};
const BAD_CERTIFICATE = /CERT|SIGNATURE|ERR_TLS|ERR_SSL/;

/** What a failed connection or request means, by the system's own word for it. */
export function troubleFrom(code: string | undefined, url: string, answerMs: number): NoAnswer {
  const known = code === undefined ? undefined : NO_CONNECTION[code];
  if (known) return new NoAnswer('never left', `the relay ${url} cannot be reached (${known})`);
  if (code !== undefined && BAD_CERTIFICATE.test(code)) {
    const remedy = 'give its authority in NODE_EXTRA_CA_CERTS if it is your own';
    return new NoAnswer('never left', `the certificate of ${url} is not trusted (${code}); ${remedy}`);
  }
  const how = code === 'ECONNRESET' ? 'it closed the connection' : `nothing came for ${Math.ceil(answerMs / 1000)} s`;
  return new NoAnswer('unknown', `the relay ${url} did not answer (${how})`);
}
