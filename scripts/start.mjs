// `npm start`: shows the main job on a fresh temporary home.
import { runBun } from './setup.mjs';

// Bun's own cache would write into the user's home.
await runBun(['src/cli/main.ts', 'demo', ...process.argv.slice(2)], {
  env: { ...process.env, BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0' },
});
