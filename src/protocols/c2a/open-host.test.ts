import { openHostService, hostToken } from './open-host.ts';
import { describe, expect, it } from 'bun:test';
import { chmodSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { temporaryHome } from '../../../test/support/home.ts';
import { Context } from '../../cli/context.ts';

it('a folder that cannot be written is named in a refusal, not reported as our bug', async () => {
  const home = temporaryHome();
  writeFileSync(`${home}/file`, '');
  const order = { socket: `${home}/file/socket`, ws: null, tokenFile: `${home}/token` };
  const opening = openHostService(new Context({ PARLEY_HOME: home }, home, {}), order, () => {});
  await expect(opening).rejects.toMatchObject({ code: 'storage_failed' });
});

describe('the token of the host', () => {
  it('is made once, for its user alone, and kept', () => {
    const home = temporaryHome();
    const token = hostToken(`${home}/token`);
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(hostToken(`${home}/token`)).toBe(token);
    expect(statSync(`${home}/token`).mode & 0o777).toBe(0o600);
    expect(readdirSync(home)).toEqual(['token']);
  });

  it('is refused when others could have read it, or when there is none in its file', () => {
    const path = `${temporaryHome()}/token`;
    hostToken(path);
    chmodSync(path, 0o644);
    expect(() => hostToken(path)).toThrow(`other users can read ${path}`);
    chmodSync(path, 0o600);
    writeFileSync(path, '\n');
    expect(() => hostToken(path)).toThrow(`${path} holds no token`);
  });
});
