/** So many words in a row are somebody's own; of a shorter text all of it, if it says anything. */
const RUN = 6;
const FEWEST = 3;
const SHORTEST = 16;

/** Does a text say again, word for word, what another said? Other words for it are not found. spec: c2a#private */
export function saysAgain(text: string, told: string): boolean {
  const source = wordsOf(told);
  const run = Math.min(RUN, source.length);
  if (run < FEWEST || source.join(' ').length < SHORTEST) return false;
  const said = runsOf(wordsOf(text), run);
  for (const one of runsOf(source, run)) if (said.has(one)) return true;
  return false;
}

function wordsOf(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

function runsOf(words: readonly string[], run: number): Set<string> {
  const runs = new Set<string>();
  for (let at = 0; at + run <= words.length; at += 1) runs.add(words.slice(at, at + run).join(' '));
  return runs;
}
