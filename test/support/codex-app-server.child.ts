// `codex app-server` of a played Codex: what it reads and writes goes to the daemon that test/support/codex-daemon.ts plays.
import { readLines } from '../../src/wire/lines.ts';

const [, , path = ''] = process.argv;
const socket = new WebSocket(`ws+unix://${path}`, { perMessageDeflate: false });
socket.addEventListener('message', ({ data }: MessageEvent<string>) => process.stdout.write(`${data}\n`));
await new Promise((opened) => socket.addEventListener('open', opened));
await readLines(Bun.stdin.stream(), 1024 * 1024, { receive: (bytes) => socket.send(bytes), tooLong() {} });
socket.close();
