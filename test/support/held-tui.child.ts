// Holds the scripted agent in this terminal and types mail to it, as `parley run kimi` does: `bun held-tui.child.ts <home> <folder of the agent> <command…>`.
import { argv, env } from 'node:process';
import { TerminalHolder } from '../../src/delivery/held-session.ts';
import { AgentName } from '../../src/core/names.ts';
import { exitNow } from '../../src/platform/libc.ts';
import { HookStateFile } from '../../src/sessions/client-state.ts';
import { HeldTerminal } from '../../src/sessions/pass-through.ts';
import { scriptedComposer, scriptedHolds } from './scripted-tui.ts';

const [, , home = '', folder = '', ...command] = argv;
let holder: TerminalHolder | null = null;
const held = new HeldTerminal(command, { cwd: folder, env, drew: () => holder?.drew() });
const own = {
  states: new HookStateFile(`${folder}/sign`),
  session: null,
  isReady: () => true,
  look() {},
  holds: scriptedHolds,
  enterAfter: 500,
};
const name = AgentName.parse('kimi.project');
const typing = { own, composer: scriptedComposer };
holder = new TerminalHolder({
  home,
  client: 'kimi',
  name,
  folder,
  held,
  typing,
  quietMs: Number(env['QUIET_MS'] ?? 100),
  leftMs: 100,
  ...('ENTERED_MS' in env && { enteredMs: Number(env['ENTERED_MS']) }),
});
await holder.open();
const end = await held.ended();
holder.close();
exitNow(typeof end === 'number' ? end : 1);
