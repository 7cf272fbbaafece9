import { carryOut, changeFor, takeBack, undo } from '../../clients/settings/apply.ts';
import type { Change, Look, Wish } from '../../clients/settings/apply.ts';
import { isSame, readManifest } from '../../clients/settings/manifest.ts';
import type { Noted } from '../../clients/settings/manifest.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { guarded } from './guarded.ts';

/** What became of one wish. `replaced`: an older text of ours was there. `theirs`: something like it is there that we did not put there. */
export interface Done {
  path: string;
  what: string;
  outcome: 'added' | 'replaced' | 'would add' | 'there' | 'theirs';
  /** The file as it was before; null if it was not there, or was not changed. */
  backup: string | null;
}

/** What became of one thing that was to be removed. `changed`: somebody did something to it, so it stays. */
export interface Removed {
  path: string;
  what: string;
  outcome: 'removed' | 'would remove' | 'gone' | 'changed' | 'refused';
  /** The copy of the file as it was before, kept because the file is not that any more. */
  kept: string | null;
  why?: string;
}

/**
 * Carries out what one client needs: all or nothing. Every file is looked at before the first one is changed, and what goes wrong after
 * that is taken back.
 */
export function fulfil(wishes: readonly Wish[], manifest: string, order: { dry: boolean; again: string }): Done[] {
  guarded(manifest, order.again, () => readManifest(manifest));
  const plan = (wish: Wish) => guarded(wish.path, order.again, () => changeFor(wish, manifest));
  const planned = wishes.map((wish) => outcomeOf(wish, plan(wish)));
  if (order.dry) return planned;
  const before = readManifest(manifest);
  const changes: Change[] = [];
  try {
    // Looked at anew: the one before may have changed the same file.
    return wishes.map((wish) => {
      const change = plan(wish);
      if (typeof change === 'string') return outcomeOf(wish, change);
      const backup = guarded(wish.path, order.again, () => carryOut(change, manifest));
      changes.push(change);
      const { target } = change.found;
      const outcome = before.noted.some((one) => isSame(one, { ...wish, target })) ? 'replaced' : 'added';
      return { path: wish.path, what: wish.what, outcome, backup: backup ?? null };
    });
  } catch (error) {
    takeBack(changes, before, manifest);
    throw error;
  }
}

function outcomeOf({ path, what }: Wish, change: Change | 'there' | 'theirs'): Done {
  return { path, what, outcome: typeof change === 'string' ? change : 'would add', backup: null };
}

/** What is noted under one of our names, for these clients. */
export function notedFor(manifest: string, by: string, clients: readonly string[], again: string): Noted[] {
  const { noted } = guarded(manifest, again, () => readManifest(manifest));
  return noted.filter((one) => one.by === by && clients.includes(one.owner));
}

/** Takes out what was noted, the last first. A file that cannot be read keeps what is in it, and its note; the others go on. */
export function takeOut(
  noted: readonly Noted[],
  manifest: string,
  order: { dry: boolean; again: string; look?: Look },
): Removed[] {
  return noted.toReversed().map((one) => {
    const { path, what } = one;
    try {
      const { outcome, kept = null } = guarded(path, order.again, () => undo(one, manifest, order.dry, order.look));
      return { path, what, outcome: order.dry && outcome === 'removed' ? 'would remove' : outcome, kept };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { path, what, outcome: 'refused', kept: null, why: error.message };
    }
  });
}
