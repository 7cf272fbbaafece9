import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { temporaryHome } from './home.ts';

/** What the scripted kimi does at one start: see kimi.child.ts. */
export type KimiAct = 'accept' | 'busy' | 'refuse' | 'die' | 'fall' | 'hang' | 'stubborn' | 'ask';

interface Heard {
  started?: string[];
  pid?: number;
  initialize?: Record<string, unknown>;
  prompt?: string;
  reply?: Record<string, unknown>;
  cancel?: boolean;
  ended?: number;
}

/** A scripted `kimi` of the old kind, as a program of its own. */
export class ScriptedKimi {
  readonly folder = temporaryHome();
  readonly path = `${this.folder}/bin/kimi`;

  constructor(acts: KimiAct[] = ['accept'], version = '1.49.0') {
    this.plan(acts, version);
    mkdirSync(`${this.folder}/bin`);
    const child = `${import.meta.dir}/kimi.child.ts`;
    writeFileSync(this.path, `#!/bin/sh\nexec '${process.execPath}' '${child}' '${this.folder}' "$@"\n`);
    chmodSync(this.path, 0o755);
  }

  plan(acts: KimiAct[], version = '1.49.0'): void {
    writeFileSync(`${this.folder}/plan.json`, JSON.stringify({ version, acts }));
  }

  get heard(): Heard[] {
    const path = `${this.folder}/heard.jsonl`;
    if (!existsSync(path)) return [];
    const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as Heard);
  }

  get starts(): string[][] {
    return this.heard.flatMap(({ started }) => (started ? [started] : []));
  }

  get prompts(): string[] {
    return this.heard.flatMap(({ prompt }) => prompt ?? []);
  }

  /** Does any that was started still run? */
  get runs(): boolean {
    return this.heard.some(({ started, pid }) => started && pid && existsSync(`/proc/${pid}`));
  }
}
