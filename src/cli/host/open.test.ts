import { expect, it } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { Context } from '../context.ts';
import { openHostService } from './open.ts';

it('a place that cannot be written to is named, and is no fault of the program', async () => {
  const home = temporaryHome();
  writeFileSync(`${home}/file`, '');
  const order = { socket: `${home}/file/socket`, ws: null, tokenFile: `${home}/token` };
  const opening = openHostService(new Context({ PARLEY_HOME: home }, home, {}), order, () => {});
  await expect(opening).rejects.toMatchObject({ code: 'storage_failed' });
});
