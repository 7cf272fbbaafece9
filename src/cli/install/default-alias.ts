const MANNERS =
  'brave calm clear deft fair fond glad keen kind lucid merry neat plain prompt quick quiet ready sharp sound spry still sure swift warm'.split(
    ' ',
  );
const BEARERS =
  'badger beech cedar crane curlew finch fox hare hazel heron ibex kite larch lark linnet lynx maple marten osprey otter plover rowan stoat wren'.split(
    ' ',
  );

/** A name for a client in a folder: always the same one, so that who installs again stays who they were. */
export function defaultAlias(client: string, home: string, project: string): string {
  const [first = 0, second = 0] = new Bun.CryptoHasher('sha256').update([client, home, project].join('\0')).digest();
  return `${client}-${MANNERS[first % MANNERS.length]}-${BEARERS[second % BEARERS.length]}`;
}
