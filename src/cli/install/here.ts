import { existsSync } from 'node:fs';
import type { InstallClient, Place } from '../../clients/install-client.ts';
import { onPath } from '../self/search-path.ts';

/** Is the client on this machine? Its folder says so, or its program. */
export function isHere(client: InstallClient, place: Place): boolean {
  return (
    client.folders(place).some((folder) => existsSync(folder)) ||
    client.binaries.some((name) => onPath(name, place.env) !== null)
  );
}
