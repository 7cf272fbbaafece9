// A scripted OpenCode in a terminal: it draws its composer and serves HTTP on `--port`. In its folder, `plan.json` says how it answers, and
// `asked.jsonl` has what it was asked.
import { appendFileSync, readFileSync } from 'node:fs';

const [folder = ''] = process.argv.slice(2);
const words = process.argv.slice(3);
const secret = btoa(`opencode:${process.env['OPENCODE_SERVER_PASSWORD'] ?? ''}`);
let conversations = 0;

function planned(): { create?: number; prompt?: number; leaves?: boolean } {
  return JSON.parse(readFileSync(`${folder}/plan.json`, 'utf8')) as ReturnType<typeof planned>;
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: Number(words[words.indexOf('--port') + 1]),
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (request.headers.get('authorization') !== `Basic ${secret}`) return new Response('', { status: 401 });
    const plan = planned();
    const text = await request.text();
    if (request.method === 'POST')
      appendFileSync(
        `${folder}/asked.jsonl`,
        `${JSON.stringify({ path: pathname, body: JSON.parse(text) as unknown })}\n`,
      );
    if (pathname === '/session/status' && plan.leaves) void server.stop();
    if (pathname === '/session/status') return Response.json({});
    if (pathname === '/session')
      return plan.create
        ? new Response('', { status: plan.create })
        : Response.json({ id: `ses_${(conversations += 1)}` });
    return new Response(null, { status: pathname.endsWith('/prompt_async') ? (plan.prompt ?? 204) : 204 });
  },
});
process.stdout.write('┃\n┃  Build\n╹▀▀▀▀▀▀▀▀▀▀\n');
// It stays when it listens nowhere any more.
setInterval(() => {}, 60_000);
