import { lstatSync, statSync } from 'node:fs';

/** Changes whenever the file does, or another takes its place; empty if there is none. */
export function stampOf(path: string, isLinkFollowed = false): string {
  const stat = isLinkFollowed ? statSync : lstatSync;
  // Big integers: some file systems number their files so high that a plain number would be rounded.
  const found = stat(path, { bigint: true, throwIfNoEntry: false });
  return found ? `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}` : '';
}
