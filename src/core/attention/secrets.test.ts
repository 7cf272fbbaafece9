import * as fc from 'fast-check';
import { describe, expect, it } from 'bun:test';
import { masked } from './secrets.ts';

const letters = (alphabet: string, length: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...alphabet.split('')), minLength: length, maxLength: length });
const WORD = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
const HEX = '0123456789abcdef';
const begun = (prefix: string, alphabet: string, length: number): fc.Arbitrary<string> =>
  letters(alphabet, length).map((rest) => prefix + rest);

/** An example of each kind of secret. None of them was ever real. */
const KINDS: [string, fc.Arbitrary<string>][] = [
  ['an AWS key', begun('AKIA', UPPER, 16)],
  ['a passing AWS key', begun('ASIA', UPPER, 16)],
  ['a GitHub token', begun('ghp_', WORD, 36)],
  ['a fine-grained GitHub token', begun('github_pat_', `${WORD}_`, 82)],
  ['a GitLab token', begun('glpat-', `${WORD}-`, 20)],
  ['a Slack token', begun('xoxb-', `${WORD}-`, 50)],
  ['an OpenAI key', begun('sk-proj-1', `${WORD}_-`, 60)],
  ['an Anthropic key', begun('sk-ant-api03-', `${WORD}_-`, 90)],
  ['a Stripe key', begun('sk_live_5', WORD, 24)],
  ['a Stripe webhook secret', begun('whsec_', WORD, 32)],
  ['a Google key', begun('AIza', `${WORD}_-`, 35)],
  ['a Google access token', begun('ya29.', `${WORD}_-`, 60)],
  ['an npm token', begun('npm_', WORD, 36)],
  [
    'a JSON Web Token',
    fc.tuple(letters(WORD, 33), letters(WORD, 60), letters(WORD, 43)).map((parts) => `eyJ${parts.join('.')}`),
  ],
  [
    'a private key',
    letters(WORD, 60).map((key) => `-----BEGIN RSA PRIVATE KEY-----\n${key}\n${key}\n-----END RSA PRIVATE KEY-----`),
  ],
  ['an agent’s token', letters(HEX, 64)],
  ['an invite', begun('bch1-', WORD, 80)],
];

/** Secrets that are recognized by their place: the text before the secret, the secret, and the text after it. */
const PLACES: [string, string, string][] = [
  ['Authorization: Bearer ', 'abc', ''],
  ['authorization: basic ', 'abc', ''],
  ['https://deploy:', 'abc', '@git.example/repo.git'],
  ['postgres://app:', 'abc', '@db:5432/main'],
  ['token=', 'abc', '&page=2'],
  ['API_KEY="', 'abc', '"'],
  ['"client_secret": "', 'abc', '"'],
  ['aws_secret_access_key = ', 'abc', '\n'],
  ['the password is ', 'abc', ' for now'],
];
const around = fc.constantFrom('', ' ', '\n', '"', "'", '`', '(', ')', ',', '; ', 'see ', ' and so on ', '> ', 'key=');

describe('a secret', () => {
  it.each(KINDS)('is never left in a text: %s', (_kind, secret) => {
    fc.assert(
      fc.property(around, secret, around, (before, key, after) => {
        const text = masked(`${before}${key}${after}`);
        expect(text).toContain('[secret]');
        for (const line of key.split('\n')) if (!line.startsWith('-----')) expect(text).not.toContain(line);
      }),
    );
  });

  it.each(PLACES)('is recognized by its place: %s…', (before, _secret, after) => {
    fc.assert(
      fc.property(letters(WORD, 20), (key) => {
        const secret = `a1${key}`;
        expect(masked(`so: ${before}${secret}${after}`)).toBe(`so: ${before}[secret]${after}`);
      }),
    );
  });

  it('is masked to its end, also if the end is missing', () => {
    expect(masked('see -----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk')).toBe('see [secret]');
  });

  it('that is already masked does not change', () => {
    const parts = fc.oneof(
      ...KINDS.map(([, secret]) => secret),
      fc.constantFrom(...PLACES.map(([before]) => before)),
      around,
      fc.lorem({ maxCount: 3 }),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 8 }), (all) => {
        const once = masked(all.join(''));
        expect(masked(once)).toBe(once);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    'The build of src/a/b.ts failed at 9abcdef12, 14 of 200 tests; see https://ci.example/run/9?page=2.',
    'const token = getToken(); const secret = process.env.SECRET;',
    'token: /run/secrets/token1, password: ${PASSWORD_1}, key=<your-key-1>',
    'sk-loading-spinner-wrapper is a class name',
    'it used 128000 tokens: 64000 in, 64000 out; max_tokens=128000',
    'bearer authentication is required, a basic understanding helps',
    `image@sha256:${'0a'.repeat(32)} has the digest ${'0b'.repeat(32)}`,
    `${'0c'.repeat(32)}  parley-linux-x64`,
    'http://127.0.0.1:8080/path@2x and user@host:~/file and 12:30@home',
    '8e03978e-40d5-43e8-bc93-6894a57f9324',
  ])('is not found in an ordinary text: %s', (text) => {
    expect(masked(text)).toBe(text);
  });

  it('is searched quickly in the largest hostile body', () => {
    const started = performance.now();
    for (const part of ['eyJ-', 'sk-', 'AKIA', '-----BEGIN PRIVATE KEY----- ', 'a://b:', 'token=', 'bearer ', 'a1']) {
      masked(part.repeat((256 * 1024) / part.length));
    }
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});
