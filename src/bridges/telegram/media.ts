import type { Message } from 'grammy/types';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { SessionMessage } from '../../core/ports/session-store.ts';
import type { SessionControl } from '../../core/sessions/control.ts';
import { Refusal } from '../../core/refusal.ts';
import { withLimit } from '../../core/wait.ts';
import type { ControlFile } from '../../protocols/control/config.ts';
import type { TelegramApi } from './api.ts';

const TRANSCRIBE_MS = 60_000;
const OUTPUT_LIMIT = 1024 * 1024;
const CAPTION = 'Analyze this image:';
const VOICE = /^voice-[0-9a-f-]+\.ogg$/;

export interface MediaDeps {
  api: TelegramApi;
  control: Pick<SessionControl, 'saveFile'>;
  config: ControlFile;
  env: Env;
  /** How long a transcription may take; one minute unless a test says less. */
  transcribeMs?: number;
}

/** A prompt from a text, a voice message or a photo. */
export interface MediaPrompt {
  text: string;
  fields: Partial<SessionMessage>;
}

/** Downloads a voice message and transcribes it with the user's command. Removes the file. */
export async function voicePrompt(deps: MediaDeps, message: Message): Promise<MediaPrompt> {
  const { api, config } = deps;
  const voice = message.voice ?? message.audio;
  if (!voice) throw new Refusal('invalid_request', 'there is no voice in it');
  const { transcription_cmd: command } = config.read();
  if (command === '') throw new Refusal('bad_config', 'set transcription_cmd in ~/.ccc.json to send voice messages');
  const bytes = await api.download(voice.file_id);
  const path = `${config.folder}/voice-${crypto.randomUUID()}.ogg`;
  try {
    writeFileSync(path, bytes, { mode: 0o600, flag: 'wx' });
    const text = await transcribed(deps, command, path);
    return { text, fields: { type: 'voice', transcription: text } };
  } finally {
    rmSync(path, { force: true });
  }
}

/** Removes the recordings of a run that was killed. */
export function removeRecordings({ folder }: ControlFile): void {
  for (const name of readdirSync(folder)) if (VOICE.test(name)) rmSync(`${folder}/${name}`, { force: true });
}

/** Saves a photo on the session's host, in a folder that the client may read. */
export async function photoPrompt(deps: MediaDeps, session: string, message: Message): Promise<MediaPrompt> {
  const photo = message.photo?.toSorted((a, b) => a.width * a.height - b.width * b.height).at(-1);
  if (!photo) throw new Refusal('invalid_request', 'there is no photo in it');
  const bytes = await deps.api.download(photo.file_id);
  const path = await deps.control.saveFile(session, `photo-${crypto.randomUUID()}.jpg`, bytes);
  const caption = message.caption?.trim() || CAPTION;
  return { text: `${caption} ${path}`, fields: { type: 'photo', caption, path } };
}

/** The output of the command, which gets the path. If it hangs, or the chat is closed, it is killed with its children. */
async function transcribed({ api, env, transcribeMs = TRANSCRIBE_MS }: MediaDeps, command: string, path: string) {
  const child = Bun.spawn(['sh', '-c', `${command} "$1"`, 'sh', path], {
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
    detached: true,
    maxBuffer: OUTPUT_LIMIT,
  });
  const output = new Response(child.stdout).text().catch(() => '');
  const code = await withLimit(Promise.race([child.exited, api.closed]), transcribeMs);
  if (typeof code !== 'number') {
    end(child.pid);
    throw new Refusal('unreachable', `the transcription took longer than ${Math.ceil(transcribeMs / 1000)} s`);
  }
  if (code !== 0) throw new Refusal('unreachable', `the transcription failed (exit ${code})`);
  // A process that the command left behind may hold the pipe open.
  const text = ((await withLimit(output, 1000)) ?? '').trim();
  if (text === '') throw new Refusal('unreachable', 'the transcription is empty');
  return text;
}

function end(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by now.
  }
}
