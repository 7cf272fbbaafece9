import { statSync, writeFileSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { command } from '../../core/command.ts';
import { visibleText } from '../../core/gate.ts';
import { Refusal } from '../../core/refusal.ts';
import { countFrom } from '../../core/time.ts';
import { replaceFile } from '../../platform/files.ts';
import { fileNameOf } from '../../protocols/control/config.ts';
import { gridOf } from '../../sessions/picture/grid.ts';
import { pngOf } from '../../sessions/picture/png.ts';
import { svgOf } from '../../sessions/picture/svg.ts';
import type { Context } from '../context.ts';
import { requestSession } from './control.ts';

const LINES = 50;

const screenshotCommand = command({
  usage: 'screenshot <session> [file]',
  about:
    "The last lines of a session's terminal: as text, or as a picture with its colours. A picture has at most 200 lines. Its file is for you only; without a name it gets one with the time, and - is standard output.",
  options: {
    lines: { type: 'string', value: 'n', help: `how many (default ${LINES})` },
    png: { type: 'boolean', help: 'as a PNG; also if the file is called so' },
    svg: { type: 'boolean', help: 'as an SVG; also if the file is called so' },
  },
  words: [1, 2],
  examples: [
    'parley screenshot api',
    'parley screenshot api --lines 10',
    'parley screenshot api --png',
    'parley screenshot api screen.svg',
    'parley screenshot api --png - | ssh desk display',
  ],
  async run(context: Context, { lines, png = false, svg = false }, [session = '', file]) {
    const kind = kindOf(file, png, svg);
    const limit = countFrom(lines, LINES);
    const answer = await requestSession(context, { cmd: 'screenshot', session, limit, styles: kind !== null });
    if (kind === null) {
      if (context.json) return context.sayJson(answer);
      return context.say(visibleText(String(answer['response'])));
    }
    const grid = await gridOf(String(answer['response']));
    const picture = kind === 'png' ? await pngOf(grid) : svgOf(grid);
    if (file === '-') {
      await Bun.write(Bun.stdout, picture);
      return;
    }
    const path = resolve(context.cwd, file ?? `${fileNameOf(session)}-${timeName(new Date())}.${kind}`);
    if (file === undefined) writeFileSync(path, picture, { mode: 0o600, flag: 'wx' });
    else replacePlain(path, picture);
    if (context.json) return context.sayJson({ file: path });
    context.say(path);
  },
});

/** A device or a pipe is never replaced. */
function replacePlain(path: string, picture: string | Uint8Array): void {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false)
    throw new Refusal('invalid_request', `${path} is no plain file; name another one, or - for standard output`);
  replaceFile(path, picture);
}

/** Null: as text. */
function kindOf(file: string | undefined, png: boolean, svg: boolean): 'png' | 'svg' | null {
  const named = extname(file ?? '').toLowerCase();
  const isPng = png || (named === '.png' && !svg);
  const isSvg = svg || (named === '.svg' && !png);
  if (isPng && isSvg) throw new Refusal('invalid_request', 'choose one of --png and --svg');
  if (isPng || isSvg) return isPng ? 'png' : 'svg';
  if (file !== undefined) throw new Refusal('invalid_request', 'say which kind of picture: --png or --svg');
  return null;
}

/** `20260116-143005`, by the clock on the wall. */
function timeName(now: Date): string {
  const parts = [
    now.getFullYear(),
    now.getMonth() + 1,
    now.getDate(),
    now.getHours(),
    now.getMinutes(),
    now.getSeconds(),
  ];
  const [year, month, day, ...time] = parts.map((part) => String(part).padStart(2, '0'));
  return `${year}${month}${day}-${time.join('')}`;
}

export const commands = { screenshot: screenshotCommand };
