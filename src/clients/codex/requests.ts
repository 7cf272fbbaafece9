import * as v from 'valibot';
import type { AskedQuestion, Choice } from '../../core/ports/session.ts';
import { type Described, Schema } from '../../core/schema.ts';
import type { Id, Params, Request } from '../../wire/jsonrpc.ts';
import { isRecord } from '../../wire/jsonrpc.ts';

/** The requests of Codex 0.166 that wait for its user: their options and the replies. */

/** A request that waits. Parley does not answer forms of MCP servers, permission profiles and plans: only the window does. */
export interface CodexRequest {
  id: Id;
  /** An id that stays the same if another connection or daemon gives the request another `id`. */
  call: string;
  turn: string;
  /** The item of the turn that waits; for a question, the model's tool call. */
  item: string;
  /** Unix ms; null if Codex does not report it. */
  startedAt: number | null;
  kind: 'question' | 'permission';
  questions: AskedQuestion[];
  /** The reply to send, or why Parley cannot reply. */
  reply(choices: readonly Choice[]): Params | string;
}

const Asked = new Schema(() =>
  v.object({
    questions: v.pipe(
      v.array(
        v.object({
          id: v.string(),
          header: v.string(),
          question: v.string(),
          isSecret: v.optional(v.boolean(), false),
          options: v.nullish(v.array(v.object({ label: v.string(), description: v.string() })), []),
        }),
      ),
      v.minLength(1),
    ),
  }),
);

const Approval = new Schema(() =>
  v.object({
    startedAtMs: v.number(),
    reason: v.nullish(v.string(), ''),
    command: v.nullish(v.string(), ''),
    kind: v.nullish(v.string(), 'command'),
    networkApprovalContext: v.nullish(v.object({ host: v.string() })),
    availableDecisions: v.nullish(v.array(v.unknown())),
    grantRoot: v.nullish(v.string(), ''),
  }),
);

/** Null for an unknown kind of request. `changes`: the known file changes by item, because a request has only the id of its item. */
export function codexRequestIn(
  { id, method, params }: Request,
  changes: ReadonlyMap<string, string>,
): CodexRequest | null {
  const { turnId, itemId, approvalId } = params;
  const call = [turnId, itemId, approvalId ?? ''].join('/');
  const named = { id, call, turn: String(turnId), item: String(itemId) };
  switch (method) {
    case 'item/tool/requestUserInput': {
      const asked = Asked.safeParse(params);
      return asked.success ? { ...named, startedAt: null, kind: 'question', ...questionsOf(asked.data) } : null;
    }
    case 'item/commandExecution/requestApproval': {
      const approval = Approval.safeParse(params);
      if (!approval.success) return null;
      return { ...named, startedAt: approval.data.startedAtMs, kind: 'permission', ...commandOf(approval.data) };
    }
    case 'item/fileChange/requestApproval': {
      const approval = Approval.safeParse(params);
      if (!approval.success) return null;
      const known = changes.get(named.item);
      // The changes are part of the id, so an answer to these changes cannot approve others.
      const shownCall = known === undefined ? call : `${call}/${Bun.hash(known).toString(36)}`;
      const shown = changeOf(approval.data, known);
      return { ...named, call: shownCall, startedAt: approval.data.startedAtMs, kind: 'permission', ...shown };
    }
    default:
      return null;
  }
}

function questionsOf({ questions }: Described<typeof Asked>): Pick<CodexRequest, 'questions' | 'reply'> {
  const shown = questions.map(({ question, header, options }) => ({
    question,
    header,
    options: options.map(({ label, description }) => ({ label, ...(description !== '' && { description }) })),
    multiSelect: false,
  }));
  const reply = (choices: readonly Choice[]): Params | string => {
    const answers: Record<string, { answers: string[] }> = {};
    for (const [at, { id, options, isSecret }] of questions.entries()) {
      if (isSecret) return 'Codex asks for a secret; type it in its window, because an answer from here is kept';
      const choice = choices[at];
      const words = choice && ('text' in choice ? choice.text : options[choice.options[0] ?? -1]?.label);
      if (words === undefined) return `the answer to question ${at} is missing`;
      answers[id] = { answers: [words] };
    }
    return { answers };
  };
  return { questions: shown, reply };
}

function commandOf(approval: Described<typeof Approval>): Pick<CodexRequest, 'questions' | 'reply'> {
  const { reason, command, kind, networkApprovalContext: network, availableDecisions } = approval;
  const asks = network
    ? `Would you like to allow network access to ${network.host}?`
    : kind === 'writeStdin'
      ? 'Would you like to let Codex type into this command?'
      : 'Would you like to run the following command?';
  const text = [asks, ...(reason === '' ? [] : ['', reason]), ...(command === '' ? [] : ['', `$ ${command}`])];
  const isNetwork = network !== null && network !== undefined;
  return decided(
    isNetwork ? 'Network access' : 'Command',
    text.join('\n'),
    (availableDecisions ?? ['accept', 'cancel']).flatMap((decision) => {
      const label = labelOf(decision, isNetwork);
      return label === null ? [] : [{ label, decision }];
    }),
  );
}

/** The label in Codex's own window; null for an unknown decision. */
function labelOf(decision: unknown, isNetwork: boolean): string | null {
  switch (decision) {
    case 'accept':
      return isNetwork ? 'Yes, just this once' : 'Yes, proceed';
    case 'acceptForSession':
      return isNetwork
        ? 'Yes, and allow this host for this conversation'
        : "Yes, and don't ask again for this command in this session";
    case 'decline':
      return 'No, continue without running it';
    case 'cancel':
      return 'No, and tell Codex what to do differently';
    default:
      break;
  }
  const { acceptWithExecpolicyAmendment: rule, applyNetworkPolicyAmendment: host } = isRecord(decision) ? decision : {};
  if (isRecord(rule) && Array.isArray(rule['execpolicy_amendment']))
    return `Yes, and don't ask again for commands that start with \`${rule['execpolicy_amendment'].join(' ')}\``;
  const amendment = isRecord(host) ? host['network_policy_amendment'] : null;
  if (!isRecord(amendment)) return null;
  return amendment['action'] === 'allow'
    ? 'Yes, and allow this host in the future'
    : 'No, and block this host in the future';
}

function changeOf(
  { reason, grantRoot }: Described<typeof Approval>,
  changes: string | undefined,
): Pick<CodexRequest, 'questions' | 'reply'> {
  const text = [
    'Would you like to make the following edits?',
    ...(reason === '' ? [] : ['', reason]),
    ...(grantRoot === '' ? [] : ['', `It asks to write below ${grantRoot} from now on.`]),
    '',
    changes ?? 'Codex does not say here which files it changes. To approve it, look at its window.',
  ];
  const no = { label: 'No, and tell Codex what to do differently', decision: 'cancel' };
  const yes = [
    { label: 'Yes, proceed', decision: 'accept' },
    { label: "Yes, and don't ask again for these files", decision: 'acceptForSession' },
  ];
  return decided('File change', text.join('\n'), changes === undefined ? [no] : [...yes, no]);
}

function decided(header: string, question: string, options: { label: string; decision: unknown }[]) {
  const reply = ([choice]: readonly Choice[]): Params | string => {
    const option = choice && 'options' in choice ? options[choice.options[0] ?? -1] : undefined;
    return option ? { decision: option.decision } : 'a permission can only be answered with one of its options';
  };
  return {
    questions: [{ question, header, options: options.map(({ label }) => ({ label })), multiSelect: false }],
    reply,
  };
}

/** Does this reply deny the request? */
export function isDenial({ decision }: Params): boolean {
  if (!isRecord(decision)) return decision === 'decline' || decision === 'cancel';
  const host = decision['applyNetworkPolicyAmendment'];
  const amendment = isRecord(host) ? host['network_policy_amendment'] : null;
  return isRecord(amendment) && amendment['action'] !== 'allow';
}

const Answers = new Schema(() =>
  v.object({ answers: v.record(v.string(), v.object({ answers: v.array(v.string()) })) }),
);

/** Does the output that the model got have this reply? */
export function isAnsweredWith(output: string, reply: Params): boolean {
  try {
    const told = Answers.safeParse(JSON.parse(output));
    const ours = Answers.safeParse(reply);
    return told.success && ours.success && Bun.deepEquals(told.data.answers, ours.data.answers);
  } catch {
    // Not JSON: the turn was interrupted, and the model got a text.
    return false;
  }
}

/** The file changes of an item as text: first all paths, then the diffs. Null if they are unknown. */
export function changesIn(changes: unknown): string | null {
  if (!Array.isArray(changes) || changes.length === 0) return null;
  const files: { name: string; diff: string }[] = [];
  for (const change of changes) {
    if (!isRecord(change) || typeof change['path'] !== 'string') return null;
    const { path, kind, diff } = change;
    const { type, move_path: moved } = isRecord(kind) ? kind : {};
    const name = `${typeof type === 'string' ? type : 'change'} ${path}${typeof moved === 'string' ? ` → ${moved}` : ''}`;
    files.push({ name, diff: typeof diff === 'string' ? diff.trimEnd() : '' });
  }
  const [first, ...others] = files;
  if (first && others.length === 0) return `${first.name}\n${first.diff}`;
  return [...files.map(({ name }) => name), ...files.map(({ name, diff }) => `\n${name}\n${diff}`)].join('\n');
}
