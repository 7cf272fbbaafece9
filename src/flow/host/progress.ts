import type { ProgressLine } from '../../protocol/prompt.ts';
import type { Session } from './session.ts';

/** So many pieces of work are remembered of one session. */
const MOST_PROGRESS = 50;

/** Does somebody ask how far the work is? Only then progress is put before a model. spec: host#progress */
export function asksForStatus(body: string): boolean {
  return body.length < 500 && /\b(?:status|progress|how far|how's it going|how is it going|eta)\b/i.test(body);
}

/** Remembers how far a piece of work is: the newest word on each. */
export function keepProgress(session: Session, progress: Parameters<Session['progress']['set']>[1]): void {
  session.progress.delete(progress.progressToken);
  session.progress.set(progress.progressToken, progress);
  const [oldest] = session.progress.size > MOST_PROGRESS ? session.progress.keys() : [];
  if (oldest !== undefined) session.progress.delete(oldest);
}

/** How far the work of a session is, as told since then. */
export function linesOf(session: Session, since: number): ProgressLine[] {
  const from = session.whos[0]?.name ?? session.id;
  return [...session.progress.values()]
    .filter(({ at }) => at >= since)
    .map(({ progressToken: token, progress, total, message }) => ({ from, token, progress, total, message }));
}

/** What others tell who listen to a channel that this session listens to: of the others' work nothing is told. */
export async function linesAround(session: Session, all: Iterable<Session>, since: number): Promise<ProgressLine[]> {
  const mine = await channelsOf(session);
  const lines: ProgressLine[] = [];
  for (const other of all) {
    if (other === session || linesOf(other, since).length === 0) continue;
    if (!(await channelsOf(other)).isDisjointFrom(mine)) lines.push(...linesOf(other, since));
  }
  return lines;
}

async function channelsOf({ record, whos }: Session): Promise<Set<string>> {
  const channels = new Set<string>(record.streams);
  for (const { name, home } of whos) {
    for (const channel of (await home.directory.get(name))?.subscriptions ?? []) channels.add(channel);
  }
  return channels;
}
