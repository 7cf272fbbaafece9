/** The text that replaces a secret. None of the patterns matches it. */
const MASK = '[secret]';

/** Secrets that can be recognized by their form. All patterns are bounded, so that the time is linear even for a hostile text. */
const AT_SIGHT = [
  // A private key, also one without its end.
  '-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[^]*)',
  // AWS
  '(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,124}',
  // GitHub, GitLab
  'gh[pousr]_[A-Za-z0-9_]{20,255}|github_pat_[A-Za-z0-9_]{20,255}',
  'gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.-]{15,255}',
  // Slack
  'xox[abceoprs](?:\\.xox[bp])?-[A-Za-z0-9-]{8,255}|xapp-[A-Za-z0-9-]{8,255}',
  // Anthropic, OpenAI, Stripe. Ordinary words may begin like this too, but they have no digit.
  '(?<![A-Za-z0-9])(?:sk|pk|rk)[-_](?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{16,512}|whsec_[A-Za-z0-9+/=]{16,255}',
  // Google
  'AIza[A-Za-z0-9_-]{30,64}|ya29\\.[A-Za-z0-9_-]{16,1024}|GOCSPX-[A-Za-z0-9_-]{16,64}',
  // Package registries, Hugging Face, SendGrid
  'npm_[A-Za-z0-9]{30,64}|pypi-[A-Za-z0-9_-]{32,512}|hf_[A-Za-z0-9]{30,64}',
  'SG\\.[A-Za-z0-9_-]{16,64}\\.[A-Za-z0-9_-]{16,128}',
  // JSON Web Tokens
  '(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,512}\\.[A-Za-z0-9_-]{8,16384}(?:\\.[A-Za-z0-9_-]{0,1024})?',
  // Parley's own: an invite contains a room's token, and an agent's token has 64 digits. 64 digits after "hash" or before a file name are a hash.
  'bch1-[A-Za-z0-9_-]{16,4096}',
  '(?<![0-9A-Fa-f])(?=[0-9A-Fa-f]{64}(?![0-9A-Fa-f]|  \\S| \\*\\S))(?<!(?:sha-?256|digest|checksum|hash)[^\\n]{0,12})[0-9A-Fa-f]{64}',
];

/** Secrets that can be recognized by the text before them. That text stays. */
const BY_PLACE = [
  // https://name:password@host
  { form: '([A-Za-z][A-Za-z0-9+.-]{1,20}://[^\\s/:@]{0,256}:)[^\\s/]{1,512}@', kept: '@' },
  {
    form: '(\\b(?:bearer|basic)\\s{1,4})(?=[A-Za-z._~+/=-]{0,512}[0-9])[A-Za-z0-9._~+/=-]{8,4096}',
    kept: '',
  },
  // token: …, API_KEY=…, "password": "…", the secret is …
  {
    form:
      '((?:token|secret|passw(?:or)?d|passphrase|(?:api|access|private|auth)[_-]?key|credentials?)[A-Za-z0-9_]{0,20}' +
      '["\'`]?(?:\\s{0,3}(?:=>|:=|[:=])\\s{0,3}|\\s{1,3}is\\s{1,3})["\'`]?)' +
      '(?![/.~])(?=[^\\s"\'`]{0,512}[0-9])(?=[^\\s"\'`]{0,512}[A-Za-z])[^\\s"\'`<>{}()[\\]$,;&]{8,512}',
    kept: '',
  },
];

/** A text with its secrets masked, as far as they can be recognized. Masking a masked text changes nothing. spec: c2a#secrets */
export function masked(text: string): string {
  const { atSight, byPlace } = (compiled ??= compile());
  let before = text;
  // A masked secret may have hidden the beginning of another one, so repeat until nothing changes: nearly always twice.
  for (let round = 0; round < ROUNDS; round += 1) {
    const sighted = before.replace(atSight, MASK);
    const after = byPlace.reduce((rest, { pattern, kept }) => rest.replace(pattern, `$1${MASK}${kept}`), sighted);
    if (after === before) break;
    before = after;
  }
  return before;
}

const ROUNDS = 8;

/** Compiled when a text first needs them: most commands mask nothing. */
let compiled: ReturnType<typeof compile> | undefined;
function compile(): { atSight: RegExp; byPlace: { pattern: RegExp; kept: string }[] } {
  return {
    atSight: new RegExp(AT_SIGHT.join('|'), 'g'),
    byPlace: BY_PLACE.map(({ form, kept }) => ({ pattern: new RegExp(form, 'gi'), kept })),
  };
}

/** This many equal words in a row count as a repetition. Of a shorter message all words must be there. */
const RUN = 6;
/** A message with fewer words or characters is not compared. */
const FEWEST = 3;
const SHORTEST = 16;

/** Does a text repeat an earlier message word for word? A paraphrase is not found. spec: c2a#private */
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
