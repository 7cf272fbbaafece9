// Writes a file in place again and again, once longer and once shorter, as the original writes its records: the new text over the old
// one, and then the end of the old one cut off. Says so when it has begun, and goes on until it is killed.
//
//   bun in-place.child.ts <path> <text> <longer text>
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';

const [path = '', ...texts] = process.argv.slice(2);
write();
console.log('begun');
for (;;) write();

function write(): void {
  for (const text of texts.toReversed()) {
    const file = openSync(path, 'r+');
    ftruncateSync(file, writeSync(file, text));
    closeSync(file);
  }
}
