// `npm start`: shows the main job on a fresh temporary home.
import { runBun } from './setup.mjs';

runBun(['src/cli/main.ts', 'demo', ...process.argv.slice(2)]);
