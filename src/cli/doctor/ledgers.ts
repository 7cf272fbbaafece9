import { readdirSync, statSync } from 'node:fs';
import type { Home } from '../../flow/workspace.ts';
import { LEDGER_FORMAT, inspectLedger } from '../../daemon/homes.ts';
import { counted, on } from './finding.ts';
import type { Finding } from './finding.ts';

/** The ledger of a home, and older ones kept beside it. `usable` says whether it may be opened for more. */
export function examineLedger({ label, root }: Home): { usable: boolean; findings: Finding[] } {
  const { ok, bad } = on(`home ${label}`);
  const state = inspectLedger(root);
  const kept = keptBeside(label, root);
  if (!state) return { usable: false, findings: [ok('no ledger yet; the first message makes one'), ...kept] };
  const { format, trouble, odd } = state;
  if (trouble) {
    const next =
      'the next command keeps it beside a fresh one, which is filled from the messages on disk; if it does not, look at permissions and space';
    return { usable: false, findings: [bad(`the ledger cannot be used: ${trouble}`, next), ...kept] };
  }
  if (format !== null && format > LEDGER_FORMAT) {
    const what = `the ledger was written by a newer Parley (format ${format}, this one knows ${LEDGER_FORMAT}) and is left alone`;
    return { usable: false, findings: [bad(what, 'update Parley'), ...kept] };
  }
  if (odd.length > 0) {
    const what = `the ledger says format ${format}, but ${odd.join(', ')} in it ${odd.length === 1 ? 'is' : 'are'} not of that format: another build made it`;
    const next = `stop what uses it and move ${root}/ledger.db* away; the next command rebuilds the ledger from the messages on disk`;
    return { usable: false, findings: [bad(what, next), ...kept] };
  }
  if (format !== null && format < LEDGER_FORMAT) {
    return {
      usable: false,
      findings: [ok(`the ledger has format ${format}; the next command brings it forward, after a copy`), ...kept],
    };
  }
  return { usable: true, findings: [ok(`the ledger is sound, format ${LEDGER_FORMAT}`), ...kept] };
}

/** Damaged ledgers, and copies from before a change of format. They hold bodies, and nobody but their owner removes them. */
function keptBeside(label: string, root: string): Finding[] {
  const { warn } = on(`home ${label}`);
  const names = readdirSync(root).filter((name) => /^ledger\.db\.(damaged-\d+|v\d+)$/.test(name));
  if (names.length === 0) return [];
  const bytes = names.reduce((sum, name) => sum + statSync(`${root}/${name}`).size, 0);
  const what = `${counted(names.length, 'older or damaged ledger is', 'older or damaged ledgers are')} kept beside it (${Math.ceil(bytes / 1024)} KiB)`;
  return [warn(what, `when you need nothing from them: rm ${names.map((name) => `${root}/${name}*`).join(' ')}`)];
}
