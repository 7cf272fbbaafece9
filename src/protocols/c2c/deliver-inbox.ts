import { claudeFolder } from '../../clients/claude/settings.ts';
import { claudeRuns } from '../../clients/claude/state.ts';
import { FLAG, TEXT, command } from '../../core/command.ts';
import type { Values } from '../../core/command.ts';
import { TranscriptWay } from '../../clients/claude/transcript.ts';
import { waiting } from '../../core/mail/deliver.ts';
import { attempt } from '../../core/mail/attempt.ts';
import { userHome } from '../../platform/env.ts';
import { Refusal } from '../../core/refusal.ts';
import { envelopedParcels } from './envelope.ts';
import { instanceOf } from './instance.ts';
import { LoopOrder } from './loop-files.ts';
import { runHere, runInBackground } from './loop-process.ts';
import { GAP_MS, lockPathOf, lookOnce } from './loop.ts';
import { readTerminal } from './terminal-loop.ts';
import type { C2c } from './workspace.ts';

/** The clients that the loops know. `generic` is any other. */
const CLIENTS = ['claude', 'codex', 'codex-headless', 'opencode', 'kimi', 'crush', 'generic'];

const OPTIONS = {
  'notify-only': FLAG,
  loop: FLAG,
  daemon: FLAG,
  json: FLAG,
  'dry-run': FLAG,
  'session-id': TEXT,
  'broker-root': TEXT,
  client: TEXT,
  terminal: TEXT,
  'terminal-pid': TEXT,
  pts: TEXT,
  pid: TEXT,
  'min-inject-gap': TEXT,
  'notify-debounce': TEXT,
  'submit-delay': TEXT,
  heartbeat: TEXT,
  transcript: FLAG,
  interval: TEXT,
  // Options of the original, accepted without effect.
  'file-fallback': FLAG,
  inotify: FLAG,
  timeout: TEXT,
  pidfile: TEXT,
  'daemon-log': TEXT,
  'daemon-timeout': TEXT,
  // Internal: the order of a loop that we start in a process of its own.
  run: TEXT,
} as const;

/** `c2c-deliver-inbox`: types mail, or only a notice of it, into the terminal of a client. spec: c2c#wake */
const deliverInboxCommand = command({
  usage:
    'deliver-inbox --terminal <terminal> [--session-id <id>] [--client <client>] [--notify-only] [--loop|--daemon] [--min-inject-gap <s>] [--heartbeat <s>] [--dry-run] [--json] | deliver-inbox --transcript [--session-id <Claude session>] (experimental)',
  options: OPTIONS,
  async run(c2c: C2c, values) {
    if (values.run !== undefined) return runWanted(c2c, values.run);
    if (values.transcript) {
      const session = c2c.session(values['session-id']);
      return intoTranscript(c2c, session, values.json === true);
    }
    const wanted = await wantedFrom(c2c, values);
    if (values.daemon) return startDaemon(c2c, wanted, values.json === true);
    if (values['dry-run']) return c2c.sayJson({ ok: true, dry_run: true, wanted });
    if (values.loop) {
      const stopped = await runHere(wanted, c2c);
      if (values.json) c2c.sayJson({ ok: true, session_id: wanted.session, loop: true, stopped_reason: stopped });
      return;
    }
    await once(c2c, wanted, values.json === true);
  },
});

async function runWanted(c2c: C2c, text: string): Promise<void> {
  const wanted = LoopOrder.safeParse(JSON.parse(text));
  if (!wanted.success) throw new Refusal('invalid_request', `--run takes the order of a loop: ${wanted.why}`);
  await runHere(wanted.data, c2c);
}

type Given = Values<typeof OPTIONS>;

async function wantedFrom(c2c: C2c, values: Given): Promise<LoopOrder> {
  const session = c2c.session(values['session-id']);
  const client = values.client ?? 'generic';
  if (!CLIENTS.includes(client))
    throw new Refusal(
      'invalid_request',
      `no client is called "${client.slice(0, 40)}"; use one of ${CLIENTS.join(', ')}`,
    );
  const gap = seconds('min-inject-gap', values['min-inject-gap'] ?? values['notify-debounce']) ?? GAP_MS;
  const terminal = withServer(terminalFrom(values) ?? (await instanceTerminal(c2c, session)), c2c.env['TMUX']);
  readTerminal(terminal);
  const optional = {
    heartbeat_ms: seconds('heartbeat', values.heartbeat),
    submit_delay_ms: seconds('submit-delay', values['submit-delay']),
    interval_ms: seconds('interval', values.interval),
  };
  const given = Object.fromEntries(Object.entries(optional).filter(([, ms]) => ms !== undefined));
  const pid = values.pid === undefined ? undefined : number('pid', values.pid);
  return {
    kind: values['notify-only'] ? 'wake' : 'deliver',
    session,
    client,
    terminal,
    broker_root: values['broker-root'] ?? c2c.root,
    ...(pid !== undefined && { pid }),
    options: { gap_ms: gap, ...given },
  };
}

function terminalFrom(values: Given): string | undefined {
  if (values.terminal !== undefined) return values.terminal;
  if (values['terminal-pid'] === undefined) return undefined;
  return `pty:${number('terminal-pid', values['terminal-pid'])}:${number('pts', values.pts ?? '')}`;
}

/** Adds the path of the current tmux server to a pane, because another process, outside this server, may run the loop. */
function withServer(terminal: string, inside: string | undefined): string {
  const path = inside?.split(',')[0];
  return terminal.startsWith('tmux:') && path && !path.includes(':') ? `tmux@${path}:${terminal.slice(5)}` : terminal;
}

/** The terminal that `c2c start` recorded for a managed session. */
async function instanceTerminal(c2c: C2c, session: string): Promise<string> {
  const terminal = instanceOf(c2c.env, session)?.terminal;
  if (terminal) return terminal;
  throw new Refusal(
    'invalid_request',
    'give the terminal in which the client runs: --terminal tmux:<pane>, for instance --terminal tmux:%3',
  );
}

function number(name: string, value: unknown): number {
  const read = Number(value);
  if (value !== '' && Number.isFinite(read) && read >= 0) return read;
  throw new Refusal('invalid_request', `--${name} takes a number`);
}

function seconds(name: string, value: unknown): number | undefined {
  return value === undefined ? undefined : Math.round(number(name, value) * 1000);
}

async function startDaemon(c2c: C2c, wanted: LoopOrder, json: boolean): Promise<void> {
  const { notice, already, log } = await runInBackground(wanted, c2c.env);
  const pidfile = `${lockPathOf(c2c.env, wanted)}.pid`;
  if (json)
    return c2c.sayJson({ ok: true, daemon: true, already_running: already, pid: notice.pid, pidfile, log_path: log });
  c2c.say(`${already ? 'runs already' : 'runs'} for ${wanted.session} (pid ${notice.pid}); log: ${log}`);
}

/** Looks once and hands over what is possible now. If the client is not idle, it gets nothing and the command says why. */
async function once(c2c: C2c, wanted: LoopOrder, json: boolean): Promise<void> {
  const { count, because } = await lookOnce(wanted, c2c);
  const done = wanted.kind === 'wake' ? { notified: count } : { delivered: count };
  const told = { ok: because === null, session_id: wanted.session, broker_root: wanted.broker_root, ...done };
  if (because !== null) process.exitCode = 1;
  if (json) return c2c.sayJson({ ...told, ...(because !== null && { error: because }) });
  if (because !== null) throw new Refusal('busy', `${because}; the mail waits`);
  c2c.say(count === 0 ? 'nothing new waits' : `${wanted.kind === 'wake' ? 'woken for' : 'handed over'} ${count}`);
}

/**
 * Way 4, experimental: writes waiting mail into the transcript of a Claude session that does not run. The model sees it if the session is
 * resumed. Nothing proves that, so the mail stays in the inbox, too. spec: c2c#transcript
 */
async function intoTranscript(c2c: C2c, session: string, json: boolean): Promise<void> {
  const folder = claudeFolder({ home: userHome(c2c.env), env: c2c.env });
  const who = await c2c.reader(session);
  const mail = (await waiting(who, { any: true, loudOnly: true })).map(({ message }) => message);
  const way = new TranscriptWay({
    folders: [folder, `${userHome(c2c.env)}/.claude-shared`],
    session,
    asked: true,
    isRunning: () => claudeRuns(folder, session),
    now: () => new Date(),
  });
  const said = await attempt(who, mail, {
    way,
    wrap: (outgoing) => envelopedParcels(who.name, outgoing),
    now: Date.now,
    signal: new AbortController().signal,
  });
  if (said.outcome === 'left') throw new Refusal('busy', `${said.because}; the mail waits`);
  const count = said.outcome === 'nothing' ? 0 : said.ids.length;
  if (json) return c2c.sayJson({ ok: true, session_id: session, offered: count });
  c2c.say(
    count === 0
      ? 'nothing new waits'
      : `${count} in the transcript; seen when the session is resumed, and waiting in the inbox until it is taken`,
  );
}

export const commands = {
  'deliver-inbox': deliverInboxCommand,
};
