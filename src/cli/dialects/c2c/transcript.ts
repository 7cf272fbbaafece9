import { claudeRuns } from '../../../clients/claude/state.ts';
import { TranscriptWay } from '../../../delivery/transcript.ts';
import { waiting } from '../../../flow/deliver.ts';
import { attempt } from '../../../flow/attempt.ts';
import { Refusal } from '../../../protocol/refusal.ts';
import { userHome } from '../../env.ts';
import type { C2c } from './c2c.ts';
import { enveloped } from './entries.ts';

/**
 * Way 4, experimental: what waits goes into the transcript of a Claude session that does not run, for its model to see when it is
 * resumed. Nothing proves that it ever is, so the mail stays in the inbox too. spec: c2c#transcript
 */
export async function intoTranscript(c2c: C2c, session: string, json: boolean): Promise<void> {
  const folder = c2c.env['CLAUDE_CONFIG_DIR'] || `${userHome(c2c.env)}/.claude`;
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
    wrap: (outgoing) => enveloped(who.name, outgoing),
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
