import type { Run } from '../../support/program.ts';
import type { Transcript } from './transcript.ts';

/** The token of the relay’s default room. */
export const ROOM = 'the-room-token';

/** Every command that has to do with a relay, and every way it says no: the same words to whichever program, at whichever relay. */
export async function everything(at: Transcript): Promise<void> {
  await everythingOld(at);
  await peeking(at);
  await rooms(at);
}

/** Of these, the ones that the original had before it had rooms. */
export async function everythingOld(at: Transcript): Promise<void> {
  await joining(at);
  await channels(at);
  await mail(at);
  await watching(at);
  await tools(at);
}

async function joining(at: Transcript): Promise<void> {
  const [ann, bob, eve] = [at.of('ann'), at.of('bob'), at.of('eve')];
  const here = ['--url', at.url, '--token', ROOM];
  await ann('init', 'ann', '--url', at.url);
  await ann('init', 'ann', '--url', at.url, '--token', 'wrong');
  await ann('init', 'ann', ...here);
  at.shows('ann', 'config.json');
  await ann('init', 'ann');
  await bob('init', 'bob', ...here);
  await eve('init', 'ann', ...here);
  await eve('init', 'no/name', ...here);
  await ann('whoami');
}

async function channels(at: Transcript): Promise<void> {
  const [ann, bob] = [at.of('ann'), at.of('bob')];
  await ann('channels');
  await ann('sub', 'dev');
  await ann('sub', '#dev');
  await bob('sub', '#dev');
  await bob('sub', '#Ops');
  await ann('channels');
  await ann('agents');
  await bob('unsub', 'Ops');
  await bob('unsub', '#never');
  await ann('agents');
}

async function mail(at: Transcript): Promise<void> {
  const [ann, bob] = [at.of('ann'), at.of('bob')];
  await bob('inbox');
  await bob('drain');
  await bob('drain', '--json');
  await bob('drain', '--hook');
  const first = idOf(await ann('send', '@bob', 'hello', 'there'));
  await ann('send', 'bob', 'no sign');
  const more = ['--scope', 'https://github.com/Org/Repo.git', '--thread', 't 1', '--ref', 'a.ts', '--ref', 'b.ts'];
  await ann('send', '@bob', 'with\nall   of it', '--urgent', ...more);
  await ann('send', '#dev', 'x'.repeat(130));
  await ann('send', '@ann', 'to myself');
  await ann('send', '@bob', '“ü” \\ "q" 😀');
  await ann('send', '@nobody', 'x');
  await ann('send', '@../../bob', 'x');
  await ann('send', '#empty', 'x');
  await ann('send', 'dev', 'x');
  for (const flags of [[], ['--brief'], ['--json'], ['--match', 'org/other'], ['--match', 'git@github.com:org/repo']]) {
    await bob('inbox', ...flags);
  }
  await bob('read', 'zzzz');
  await bob('read', first);
  await bob('read', first);
  await bob('drain', '--hook');
  await bob('drain', '--json', '--match', 'github.com/org/repo/sub');
  await bob('drain');
  await ann('read', idOf(await ann('send', '@ann', 'to be kept')), '--keep');
  await ann('drain');
  for (const args of [['inbox'], ['send', '@bob', 'x'], ['agents'], ['sub', 'x']]) {
    await at.does('bob', args, { env: { BACKCHANNEL_TOKEN: 'wrong' } });
  }
}

async function watching(at: Transcript): Promise<void> {
  const ann = at.of('ann');
  await ann('send', '@bob', 'before');
  await during(at, ['watch'], async (says) => {
    await says('before');
    await ann('send', '@bob', 'while\nyou watch');
    await says('while you watch');
  });
  await during(at, ['watch', '--exec', 'echo ran {{from}} {{to}} {{priority}} {{body}}'], async (says) => {
    await ann('send', '@bob', 'act', 'now', '--urgent');
    await says('ran ann @bob urgent act now');
  });
  await during(at, ['watch', '--match', 'github.com/org/repo'], async (says) => {
    await ann('send', '@bob', 'for others', '--scope', 'org/other');
    await ann('send', '@bob', 'for the repository', '--scope', 'org/repo');
    await says('for the repository');
  });
  await during(at, ['watch', '--urgent-only'], async (says) => {
    await ann('send', '@bob', 'calm');
    await ann('send', '@bob', 'fire', '--urgent');
    await says('fire');
  });
  await at.does('bob', ['drain', '--match', 'org/other']);
}

async function peeking(at: Transcript): Promise<void> {
  await at.does('ann', ['send', '@bob', 'look', '--scope', 'org/repo']);
  await during(at, ['watch', '--peek'], (says) => says('look'));
  await at.does('bob', ['drain', '--match', 'org/repo']);
}

async function during(
  at: Transcript,
  args: string[],
  act: (says: (text: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const watch = at.begins('bob', args);
  await watch.complains('watching inbox for bob');
  await act((text) => watch.says(text));
  await at.ends('bob', args, watch);
}

async function tools(at: Transcript): Promise<void> {
  const [ann, bob] = [await at.machine('ann').tools(at.brand), await at.machine('bob').tools(at.brand)];
  const { result = {} } = await ann.request('tools/list');
  at.tells((result['tools'] as { name: string }[]).map(({ name }) => name).join(' '));
  await at.calls(ann, 'bch_subscribe', { channel: '#tools' });
  await at.calls(bob, 'bch_agents');
  await at.calls(bob, 'bch_inbox');
  await at.calls(ann, 'bch_send', { target: '@bob', body: 'by a tool' });
  const more = { priority: 'urgent', scope: 'org/repo', thread: 't', refs: ['a', 'b'] };
  await at.calls(ann, 'bch_send', { target: '#dev', body: 'to all', ...more });
  await at.calls(ann, 'bch_send', { target: '@nobody', body: 'x' });
  await at.calls(bob, 'bch_inbox');
  await at.calls(bob, 'bch_inbox', { match: 'github.com/org/repo' });
  await at.calls(bob, 'bch_inbox', { match: 'github.com/org/repo' });
}

async function rooms(at: Transcript): Promise<void> {
  const [host, cat, dan, eve] = [at.of('host'), at.of('cat'), at.of('dan'), at.of('eve')];
  const made = await at.machine('host').run(at.brand, ['room', 'new', '#team', 'qa', '--url', at.url]);
  const [, room = '?'] = /room "(\S+)" created/.exec(made.out) ?? [];
  const invite = inviteIn(made);
  at.mask(room, 'ROOM');
  at.tells(`room new\n${made.out}${made.err}= ${made.code}\n${JSON.stringify(contentOf(invite))}`);
  await cat('join', invite, '--as', 'cat', '--no-hooks');
  at.shows('cat', 'config.json');
  await dan('join', invite, '--as', 'dan', '--no-hooks');
  await eve('join', invite, '--as', 'cat', '--no-hooks');
  await eve('join', 'no-invite', '--as', 'eve');
  await eve('join', 'bch1-eyJ9', '--as', 'eve');
  await eve('join', invite);
  await cat('agents');
  await cat('send', '#team', 'in our room');
  await cat('send', '@bob', 'out of our room');
  await dan('drain');
  await cat('whoami');
  const invited = await host('invite', '--url', at.url, '--token', ROOM, '--channel', '#dev');
  at.tells(JSON.stringify(contentOf(inviteIn(invited))));
  await eve('join', inviteIn(invited), '--as', 'eve', '--no-hooks');
  await eve('agents');
}

function idOf({ out }: Run): string {
  const [, id = ''] = /^sent ([0-9a-f]{8}) /.exec(out) ?? [];
  return id;
}

function inviteIn({ out }: Run): string {
  const [invite = ''] = /bch1-[\w-]+/.exec(out) ?? [];
  return invite;
}

/** What the invite says, with its token as a length: it is somebody’s secret, and no two are the same. */
function contentOf(invite: string): object {
  const content = JSON.parse(Buffer.from(invite.slice(5), 'base64url').toString()) as Record<string, string>;
  return { ...content, token: `${content['token']?.length} characters` };
}
