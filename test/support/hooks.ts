import type { MailboxJournal } from '../../src/core/ports/journal.ts';
import { openWorkspace } from '../../src/daemon/homes.ts';
import { layReferences } from '../../src/delivery/hook-session.ts';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { hookScript } from '../../src/delivery/hook-script.ts';
import type { Home } from '../../src/core/mail/workspace.ts';
import type { Attention } from '../../src/core/attention/attention.ts';
import { BODY_LIMIT } from '../../src/core/message.ts';
import type { Message } from '../../src/core/message.ts';
import { trust } from '../../src/platform/trust.ts';
import { AgentName } from '../../src/core/names.ts';
import { temporaryHome } from './home.ts';
import { aMessage, LOUD } from './mail.ts';
import type { Run } from './program.ts';
import { PARLEY } from './program.ts';

/** The shells that are `sh` somewhere, as far as this machine has them. */
export const SHELLS: readonly string[][] = [['dash'], ['bash', '--posix'], ['busybox', 'sh']].flatMap(
  ([name = '', ...rest]) => {
    const path = Bun.which(name);
    return path ? [[path, ...rest]] : [];
  },
);

export interface Event {
  session_id: string;
  cwd: string;
  hook_event_name: string;
  [field: string]: unknown;
}

/**
 * A machine with agents, on which clients call the real hook script. Every start of the slow half is counted. The script calls
 * a small program of ours in its stead, which writes that down and becomes the real one.
 */
export class Hooks {
  readonly user = temporaryHome();
  readonly home = `${this.user}/.parley`;
  readonly #workspace = openWorkspace(
    { PARLEY_HOME: this.home, BACKCHANNEL_HOME: `${this.user}/none` },
    { bodyLimit: BODY_LIMIT, durability: 'normal' },
  );

  constructor(public shell: readonly string[] = SHELLS[0] ?? ['sh']) {
    mkdirSync(this.home, { mode: 0o700 });
    layReferences(this.home);
    const program = `${this.user}/slow half`;
    writeFileSync(program, `#!/bin/sh\necho >>'${this.user}/starts'\nexec '${PARLEY}' "$@"\n`);
    chmodSync(program, 0o700);
    writeFileSync(`${this.home}/hook`, hookScript(this.home, [program]));
  }

  get mail(): Home {
    const [own] = this.#workspace.homes;
    if (!own) throw new Error('a workspace has a home');
    return own;
  }

  /** Makes these agents; the first is who the user is. */
  async with(...names: string[]): Promise<this> {
    for (const name of names) await this.mail.directory.register(AgentName.parse(name), 'agent');
    writeFileSync(`${this.home}/config.json`, JSON.stringify({ agent: names[0] }));
    await this.mail.mailboxes.heal();
    return this;
  }

  /** How often the slow half was started. */
  get starts(): number {
    return existsSync(`${this.user}/starts`) ? statSync(`${this.user}/starts`).size : 0;
  }

  /** A folder with a repository of this origin, and perhaps settings of its own. */
  project(origin: string, agent?: string): string {
    const folder = temporaryHome();
    mkdirSync(`${folder}/.git`);
    writeFileSync(`${folder}/.git/config`, `[remote "origin"]\n\turl = ${origin}\n`);
    if (agent) {
      const text = JSON.stringify({ agent });
      writeFileSync(`${folder}/.parley.json`, text);
      trust({ PARLEY_HOME: this.home }, `${folder}/.parley.json`, text);
    }
    return folder;
  }

  event(fields: Partial<Event> = {}): Event {
    return { session_id: 's1', cwd: this.user, hook_event_name: 'PostToolUse', tool_name: 'Bash', ...fields };
  }

  start(client: string, stdin: string, env: Record<string, string> = {}, args: string[] = []) {
    const child = Bun.spawn([...this.shell, `${this.home}/hook`, client, ...args], {
      cwd: this.user,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: this.user,
        PARLEY_NO_DAEMON: '1',
        BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
        ...env,
      },
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    // A client that cannot write its event reports a broken hook.
    const written = (async () => {
      await child.stdin.write(stdin);
      await child.stdin.end();
    })();
    const ended = async (): Promise<Run> => {
      const [out, err, code] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
        child.exited,
        written,
      ]);
      return { out, err, code };
    };
    return { child, ended };
  }

  /** One call of the hook, as a client makes it. */
  async call(event: Partial<Event> | string = {}, client = 'claude', env: Record<string, string> = {}): Promise<Run> {
    return this.start(client, typeof event === 'string' ? event : JSON.stringify(this.event(event)), env).ended();
  }

  /** What the model gets from one call: nothing must be wrong with it. */
  async said(event: Partial<Event> = {}, client = 'claude', env: Record<string, string> = {}): Promise<string> {
    const run = await this.call(event, client, env);
    if (run.code !== 0 || run.err !== '') throw new Error(`the hook ended with ${run.code}: ${run.err}`);
    return contextIn(run.out);
  }

  /** Sends by Parley: the copy is durable and has its row. */
  async send(fields: Partial<Message> = {}, to = 'bob', attention: Attention = LOUD): Promise<Message> {
    const message = aMessage({ to: `@${to}`, ...fields });
    await this.mail.mailboxes.put({ message, copies: [{ mailbox: AgentName.parse(to), attention }] });
    return message;
  }

  /** Leaves a message as a plain script does: into tmp/, then by rename into new/. */
  leave(fields: Partial<Message> = {}, to = 'bob'): Message {
    const message = aMessage({ to: `@${to}`, ...fields });
    const box = `${this.home}/spool/${to}`;
    for (const folder of ['tmp', 'new']) mkdirSync(`${box}/${folder}`, { recursive: true });
    writeFileSync(`${box}/tmp/${message.id}.json`, JSON.stringify(message));
    renameSync(`${box}/tmp/${message.id}.json`, `${box}/new/${message.id}.json`);
    return message;
  }

  /** Many waiting copies at once, with their rows, as if they had been there for long. */
  async fill(count: number, folder: 'new' | 'quiet', attention: Attention, fields: Partial<Message>): Promise<void> {
    const bob = AgentName.parse('bob');
    const messages = Array.from({ length: count }, () => aMessage(fields));
    await (this.mail.journal as MailboxJournal).adopt(
      messages.map((message) => ({ message, copies: [{ mailbox: bob, attention }] })),
      'stored',
    );
    mkdirSync(`${this.home}/spool/bob/${folder}`, { recursive: true });
    for (const message of messages)
      writeFileSync(`${this.home}/spool/bob/${folder}/${message.id}.json`, JSON.stringify(message));
  }
}

/** The text that a client would put before its model. */
export function contextIn(out: string): string {
  if (out === '') return '';
  const { hookSpecificOutput, reason } = JSON.parse(out) as {
    hookSpecificOutput?: { additionalContext: string };
    reason?: string;
  };
  return hookSpecificOutput?.additionalContext ?? reason ?? '';
}

/** The bodies in a text, by the short ids of their messages. */
export function bodiesIn(text: string): Map<string, string> {
  const mark = /^\[parley (\w+)\]/.exec(text)?.[1] ?? '-';
  const pattern = new RegExp(
    `^\\[parley ${mark}\\] message (\\S+) .*\\n([\\s\\S]*?)\\n\\[parley ${mark}\\] end of message \\1$`,
    'gm',
  );
  return new Map([...text.matchAll(pattern)].map(([, id = '', body = '']) => [id, body]));
}

/** The settings of a session, as the hook wrote them. */
export function bindingOf(hooks: Hooks, session: string): unknown {
  return JSON.parse(readFileSync(`${hooks.home}/sessions/${session}/session.json`, 'utf8'));
}
