import type { Message } from 'grammy/types';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { Env } from '../../core/env.ts';
import type { SessionMessage } from '../../core/ports/session-store.ts';
import { Refusal } from '../../core/refusal.ts';
import { withLimit } from '../../core/wait.ts';
import { userHome } from '../../platform/env.ts';
import { hostOf } from '../../protocols/control/config.ts';
import type { ControlFile } from '../../protocols/control/config.ts';
import { FILE_LIMIT } from './api.ts';
import type { TelegramApi } from './api.ts';

const TRANSCRIBE_MS = 60_000;
const OUTPUT_LIMIT = 1024 * 1024;
const KEEP_PHOTOS_MS = 7 * 24 * 3600_000;
const CAPTION = 'Analyze this image:';

export interface MediaDeps {
  api: TelegramApi;
  config: ControlFile;
  env: Env;
  /** How long a transcription may take; one minute unless a test says less. */
  transcribeMs?: number;
}

/** A prompt that came as a voice message or as a photo. */
export interface MediaPrompt {
  text: string;
  fields: Partial<SessionMessage>;
}

/** Downloads a voice message, and has the user's own command write down what it says. The file is removed. */
export async function voicePrompt(deps: MediaDeps, message: Message): Promise<MediaPrompt> {
  const { api, config } = deps;
  const voice = message.voice ?? message.audio;
  if (!voice) throw new Refusal('invalid_request', 'there is no voice in it');
  const { transcription_cmd: command } = config.read();
  if (command === '') throw new Refusal('bad_config', 'set transcription_cmd in ~/.ccc.json to send voice messages');
  if ((voice.file_size ?? 0) > FILE_LIMIT) throw new Refusal('invalid_request', 'the file is too large (limit 20 MB)');
  const path = `${config.folder}/voice-${crypto.randomUUID()}.ogg`;
  try {
    await api.download(voice.file_id, path);
    const text = await transcribed(deps, command, path);
    return { text, fields: { type: 'voice', transcription: text } };
  } finally {
    rmSync(path, { force: true });
  }
}

/** Saves a photo in the folder of its session, where the client may read it. */
export async function photoPrompt(
  { api, config, env }: MediaDeps,
  session: string,
  message: Message,
): Promise<MediaPrompt> {
  const photo = message.photo?.toSorted((a, b) => a.width * a.height - b.width * b.height).at(-1);
  const entry = config.session(session);
  if (!photo || !entry) throw new Refusal('invalid_request', 'there is no photo in it');
  if (hostOf(session, entry) !== 'local')
    throw new Refusal('invalid_request', 'photos for sessions on other hosts are not in this version');
  if ((photo.file_size ?? 0) > FILE_LIMIT) throw new Refusal('invalid_request', 'the file is too large (limit 20 MB)');
  const folder = `${entry.path.replace(/^~(?=\/|$)/, userHome(env))}/.ccc`;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // Photos are no part of the project.
  if (!existsSync(`${folder}/.gitignore`)) writeFileSync(`${folder}/.gitignore`, '*\n', { mode: 0o600 });
  removeOld(folder);
  const path = `${folder}/photo-${crypto.randomUUID().slice(0, 13)}.jpg`;
  await api.download(photo.file_id, path);
  const caption = message.caption?.trim() || CAPTION;
  return { text: `${caption} ${path}`, fields: { type: 'photo', caption, path } };
}

/** What the command prints. Its argument is the path; one that hangs is ended with all that it started. */
async function transcribed({ env, transcribeMs = TRANSCRIBE_MS }: MediaDeps, command: string, path: string) {
  const child = Bun.spawn(['sh', '-c', `${command} "$1"`, 'sh', path], {
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
    detached: true,
    maxBuffer: OUTPUT_LIMIT,
  });
  const output = new Response(child.stdout).text().catch(() => '');
  const code = await withLimit(child.exited, transcribeMs);
  if (code === null) {
    end(child.pid);
    throw new Refusal('unreachable', `the transcription took longer than ${Math.ceil(transcribeMs / 1000)} s`);
  }
  if (code !== 0) throw new Refusal('unreachable', `the transcription failed (exit ${code})`);
  // A process that it left behind may hold the pipe open.
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

function removeOld(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = `${folder}/${name}`;
    const stat = /^photo-[0-9a-f-]+\.jpg$/.test(name) ? statSync(path, { throwIfNoEntry: false }) : undefined;
    if (stat && Date.now() - stat.mtimeMs > KEEP_PHOTOS_MS) rmSync(path, { force: true });
  }
}
