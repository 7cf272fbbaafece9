import { isSameDeadline } from '../../store/journal/rules.ts';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { SendKey, MessageId } from '../../core/names.ts';
import { Refusal } from '../../core/refusal.ts';
import { explained, isMissing } from '../../core/disk.ts';
import { isDead, newHolder } from '../../platform/holder.ts';
import { MaildirFiles, list, idsIn } from '../../store/maildir/files.ts';
import { OutgoingMessage } from '../../core/ports/remote.ts';
import type { OutgoingState } from '../../core/ports/remote.ts';
import { isMessageId } from '../../core/names.ts';

/** A message and the name of its file, which contains its state. */
export interface Filed {
  outgoing: OutgoingMessage;
  state: OutgoingState;
  file: string;
}

const NAME = /^([0-9a-f]{16})\.(?:(queued|unknown|refused)|sending\.(.+))\.json$/;

/**
 * Messages for a relay, one file each: `<hash of the key>.<state>.json`. A message is written and flushed before it is sent, and removed
 * when the relay has answered. A rename claims it, so only one of many processes sends it. `sending.<who>` of a dead process means that it
 * is unknown whether the message arrived.
 */
export class Outbox {
  readonly #files: MaildirFiles;
  readonly #folder: string;

  constructor(root: string) {
    this.#files = new MaildirFiles(root);
    this.#folder = `${root}/outbox`;
  }

  /** Everything in it, oldest first. */
  list(): Filed[] {
    const filed = list(this.#folder).flatMap((file) => this.#read(file) ?? []);
    return filed.sort((a, b) => (a.outgoing.written < b.outgoing.written ? -1 : 1));
  }

  /** Is there no message? Costs one listing. */
  isEmpty(): boolean {
    return !list(this.#folder).some((file) => NAME.test(file));
  }

  find(key: string): Filed | undefined {
    const name = nameOf(key);
    const file = list(this.#folder).find((one) => one.startsWith(`${name}.`));
    return file === undefined ? undefined : this.#read(file);
  }

  /** Stores a message durably. If its key is there already, returns that message, which must say the same. */
  add(outgoing: OutgoingMessage): Filed {
    const there = this.find(outgoing.key);
    if (there && saySame(there.outgoing, outgoing)) return there;
    if (there)
      throw new Refusal(
        'key_conflict',
        `key "${outgoing.key}" names another message that waits in the outbox; use a new key`,
      );
    const file = `${nameOf(outgoing.key)}.queued.json`;
    this.#write(file, outgoing);
    return { outgoing, state: 'queued', file };
  }

  /** Claims a message. Null if another process has it. */
  begin(filed: Filed): Filed | null {
    return this.#rename(filed, `sending.${newHolder(false)}`, 'sending');
  }

  /** Puts a claimed message back, in a new state. */
  put(filed: Filed, state: 'queued' | 'unknown' | 'refused', why: string, tried?: string): void {
    const now = this.#rename(filed, state, state);
    if (now) this.#write(now.file, { ...now.outgoing, why, ...(tried && { tried }) });
  }

  remove(filed: Filed): void {
    rmSync(`${this.#folder}/${filed.file}`, { force: true });
  }

  #rename(filed: Filed, suffix: string, state: OutgoingState): Filed | null {
    const file = `${nameOf(filed.outgoing.key)}.${suffix}.json`;
    try {
      if (file !== filed.file) renameSync(`${this.#folder}/${filed.file}`, `${this.#folder}/${file}`);
      return { ...filed, file, state };
    } catch (error) {
      if (isMissing(error)) return null;
      throw explained(error, this.#folder, 'nothing was sent');
    }
  }

  #write(file: string, outgoing: OutgoingMessage): void {
    const draft = `${this.#folder}/.${file}.${process.pid}`;
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      this.#files.write(draft, JSON.stringify(outgoing));
      renameSync(draft, `${this.#folder}/${file}`);
      this.#files.flushFolder(this.#folder);
    } catch (error) {
      rmSync(draft, { force: true });
      throw explained(error, this.#folder, 'nothing was sent');
    }
  }

  #read(file: string): Filed | undefined {
    const [, name, state, holder] = NAME.exec(file) ?? [];
    if (!name) return undefined;
    try {
      const outgoing = OutgoingMessage.safeParse(JSON.parse(readFileSync(`${this.#folder}/${file}`, 'utf8')));
      if (!outgoing.success) return undefined;
      if (holder === undefined) return { outgoing: outgoing.data, file, state: state as OutgoingState };
      if (!isDead(holder)) return { outgoing: outgoing.data, file, state: 'sending' };
      return { outgoing: { tried: outgoing.data.written, ...outgoing.data }, file, state: 'unknown' };
    } catch {
      // Another process has renamed or removed it, or it is not a message.
      return undefined;
    }
  }
}

function nameOf(key: SendKey | string): string {
  return Bun.hash(key).toString(16).padStart(16, '0');
}

/** The default time that traces are kept: nobody looks an older message up by its outbox id. */
const KEEP_MS = 180 * 24 * 60 * 60 * 1000;

/**
 * Maps the ids of queued messages to the relay's ids, where they differ: one small file each, `ids/<our id>.json`. A relay of ours keeps
 * our id, so most homes have none. A lost alias only makes a message harder to look up, so nothing is thrown.
 */
export class Aliases {
  readonly #folder: string;

  constructor(
    root: string,
    readonly now: () => number,
  ) {
    this.#folder = `${root}/ids`;
  }

  note(ours: MessageId, theirs: MessageId): void {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      this.#forgetOld();
      writeFileSync(this.#path(ours), JSON.stringify(theirs), { mode: 0o600 });
    } catch {
      // The message itself was sent: ignore the error.
    }
  }

  /** The relay's ids of messages whose outbox id begins with `prefix`. */
  like(prefix: string): MessageId[] {
    if (prefix === '') return [];
    return idsIn(this.#folder)
      .filter((id) => id.startsWith(prefix))
      .flatMap((id) => this.#read(id) ?? []);
  }

  /** The outbox id of a message with this id at the relay. */
  oursFor(theirs: MessageId): MessageId | undefined {
    return idsIn(this.#folder).find((id) => this.#read(id) === theirs);
  }

  #read(id: MessageId): MessageId | undefined {
    try {
      const theirs: unknown = JSON.parse(readFileSync(this.#path(id), 'utf8'));
      return isMessageId(theirs) ? theirs : undefined;
    } catch {
      return undefined;
    }
  }

  #forgetOld(): void {
    for (const id of idsIn(this.#folder)) {
      const { mtimeMs = 0 } = statSync(this.#path(id), { throwIfNoEntry: false }) ?? {};
      if (this.now() - mtimeMs > KEEP_MS) rmSync(this.#path(id), { force: true });
    }
  }

  #path(id: MessageId): string {
    return `${this.#folder}/${id}.json`;
  }
}

/** Two messages under one key must say the same, as two messages must. spec: message#keys */
function saySame(one: OutgoingMessage, other: OutgoingMessage): boolean {
  return wordsOf(one) === wordsOf(other) && isSameDeadline(dueOf(one), dueOf(other));
}

function wordsOf({ content }: OutgoingMessage): string {
  return JSON.stringify({ ...content, deadline: undefined });
}

function dueOf({ content: { deadline }, written }: OutgoingMessage): { deadline: string | undefined; sent: string } {
  return { deadline: typeof deadline === 'string' ? deadline : undefined, sent: written };
}
