import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { pluginText } from '../../src/protocols/c2c/install-profile.ts';
import { aModel } from '../../test/clients/model/model.ts';
import { dependencies } from '../../test/clients/package.json';
import { closeAll, opens } from '../../test/clients/support/opened.ts';
import { anOpenCode, seedPluginFolder } from '../../test/clients/support/opencode.ts';
import { aPlace } from '../../test/clients/support/place.ts';
import { endAll, processesOf } from '../../test/clients/support/processes.ts';
import { client } from '../../test/clients/support/where.ts';
import { within as until } from '../../test/support/within.ts';
import { notMeasured, spoken, within } from '../figure.ts';
import type { Bench, Row } from '../figure.ts';
import { summary, timed } from '../measure.ts';
import type { Times } from '../measure.ts';

const WHAT = `what the plugin adds to the loading of a project in OpenCode ${dependencies['opencode-ai']}, median`;
const LIMIT_MS = 50;
const NOTE =
  'OpenCode loads plugins with the first request for a project. One that runs is asked for fresh projects in turns, with this plugin and with an empty one: whole starts take seconds, and differ by more than what is measured here.';
/** The floor loads an empty plugin, because loading a plugin at all is OpenCode's own work. */
const EMPTY = 'export default async () => ({});\n';

/** The real OpenCode loads one project after the other, each with our plugin or with an empty one. */
export async function openCodeFigure(bench: Bench): Promise<Row[]> {
  try {
    void client('opencode').program;
  } catch (error) {
    return [notMeasured(WHAT, `${LIMIT_MS} ms`, 1, (error as Error).message)];
  }
  try {
    const office = await anOffice(bench);
    const times = { ours: [] as number[], empty: [] as number[] };
    const warmUp = 2;
    for (let round = -warmUp; round < (bench.quick ? 16 : 40); round += 1) {
      const turn = ['ours', 'empty'] as const;
      for (const name of round % 2 === 0 ? turn : turn.toReversed()) {
        const ms = await office.load(name);
        if (round >= 0) times[name].push(ms);
      }
    }
    return [rowOf(summary(times.ours), summary(times.empty))];
  } finally {
    await closeAll();
  }
}

function rowOf(ours: Times, empty: Times): Row {
  const row = within(WHAT, ours.median - empty.median, LIMIT_MS, 'ms');
  return { ...row, note: `${NOTE} With it ${spoken(ours)}, with an empty one ${spoken(empty)}.` };
}

interface Office {
  /** How long the first answer for a fresh project with this plugin takes. */
  load(plugin: 'ours' | 'empty'): Promise<number>;
}

async function anOffice(bench: Bench): Promise<Office> {
  const place = await aPlace();
  const c2c = `${place.home}/c2c`;
  symlinkSync(bench.program(), c2c);
  const server = await anOpenCode({ place, model: opens(aModel([])) }).serve();
  const isChild = (pid: number): boolean => pid !== server.child.pid;
  let count = 0;
  return {
    async load(plugin) {
      count += 1;
      const project = `${place.home}/project-${count}`;
      seedPluginFolder(`${project}/.opencode`);
      mkdirSync(`${project}/.opencode/plugins`);
      writeFileSync(`${project}/.opencode/plugins/c2c.ts`, plugin === 'ours' ? pluginText(c2c) : EMPTY);
      const sidecar = { session_id: `opencode-${count}`, alias: `ocean-${count}`, broker_root: `${place.home}/broker` };
      writeFileSync(`${project}/.opencode/c2c-plugin.json`, JSON.stringify(sidecar));
      const folder = `directory=${encodeURIComponent(project)}`;
      const ms = await timed(async () => {
        await server.call('GET', `/session/status?${folder}`);
      });
      // It has answered. Its child processes would slow the next measurement.
      if (plugin === 'ours') await until(20_000, async () => isRegistered(`${place.home}/broker`, sidecar.alias));
      await server.call('POST', `/instance/dispose?${folder}`);
      await endAll(processesOf(place.home).filter(isChild));
      return ms;
    },
  };
}

function isRegistered(broker: string, alias: string): boolean {
  const path = `${broker}/registry.json`;
  return existsSync(path) && readFileSync(path, 'utf8').includes(`"${alias}"`);
}
