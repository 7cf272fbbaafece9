import { plainWords, trimPunctuation } from './prose.ts';

// A letter or digit before the @ makes it an e-mail address or `package@version`; `@scope/package` names a package.
const MENTION = /(?<![\p{L}\p{N}_])@([A-Za-z0-9][A-Za-z0-9._-]*)(?![A-Za-z0-9._-]|\/[A-Za-z0-9])/gu;

/** The names called with @, each once, in order; in code, links and quoted lines nobody is. spec: c2a#mentions */
export function mentionsIn(body: string): string[] {
  const names = [...plainWords(body).matchAll(MENTION)].map(([, name = '']) => trimPunctuation(name));
  return [...new Set(names)];
}
