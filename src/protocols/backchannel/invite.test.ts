import { describe, expect, it } from 'bun:test';
import { readInvite, writeInvite } from './invite.ts';
import type { Invite } from './invite.ts';

const url = 'https://relay.test/a';

describe('an invite', () => {
  // Of three lengths: base64 would pad two of them.
  it.each<[invite: Invite, text: string]>([
    [{ url }, '{"url":"https://relay.test/a"}'],
    [{ url: `${url}b` }, '{"url":"https://relay.test/ab"}'],
    [{ url: `${url}bc`, token: '', room: '', channels: [] }, '{"url":"https://relay.test/abc"}'],
    [
      { channels: ['#dev', '#ö>?'], room: 'r', token: 't', url },
      '{"url":"https://relay.test/a","token":"t","room":"r","channels":["#dev","#ö>?"]}',
    ],
  ])('is bch1- and unpadded base64url of its fields in order: %j [BC-B8.1]', (invite, text) => {
    expect(writeInvite(invite)).toBe(`bch1-${Buffer.from(text).toString('base64url')}`);
    expect(readInvite(writeInvite(invite))).toEqual(JSON.parse(text));
  });
});
