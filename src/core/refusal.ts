/**
 * Every refusal that a caller can get, with its code over HTTP, over JSON-RPC and as an exit code. A dialect has its own texts and codes. Any
 * error that is not a Refusal is our bug. spec: message#refusals
 */
export const REFUSALS = {
  invalid_request: { http: 400, rpc: -32602, exit: 64 },
  too_large: { http: 413, rpc: -32010, exit: 65 },
  no_identity: { http: 401, rpc: -32011, exit: 67 },
  not_yours: { http: 403, rpc: -32001, exit: 77 },
  unknown_recipient: { http: 404, rpc: -32002, exit: 68 },
  not_found: { http: 404, rpc: -32004, exit: 66 },
  ambiguous: { http: 409, rpc: -32005, exit: 64 },
  already_claimed: { http: 409, rpc: -32003, exit: 75 },
  key_conflict: { http: 409, rpc: -32006, exit: 65 },
  outcome_unknown: { http: 409, rpc: -32007, exit: 75 },
  name_taken: { http: 409, rpc: -32008, exit: 73 },
  mailbox_full: { http: 429, rpc: -32015, exit: 75 },
  busy: { http: 429, rpc: -32016, exit: 75 },
  queued: { http: 202, rpc: -32017, exit: 72 },
  unreachable: { http: 502, rpc: -32018, exit: 76 },
  storage_failed: { http: 507, rpc: -32009, exit: 74 },
  newer_format: { http: 500, rpc: -32012, exit: 78 },
  bad_config: { http: 500, rpc: -32013, exit: 78 },
  against_policy: { http: 409, rpc: -32019, exit: 77 },
  not_in_this_version: { http: 501, rpc: -32014, exit: 69 },
} as const;
export type RefusalCode = keyof typeof REFUSALS;

/** An expected refusal, with one line that says what to do next. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  constructor(
    readonly code: RefusalCode,
    message: string,
  ) {
    super(message);
  }
}

/** The message of any thrown value. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
