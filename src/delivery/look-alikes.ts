/**
 * A text as a reader who is easily fooled sees it: lower-case Latin letters. Accents, wide letters, joiners, wide gaps, and Greek and
 * Cyrillic letters that look like Latin ones hide nothing.
 */
export function asLatin(text: string): string {
  return text
    .replace(/\\u\{[0-9a-f]+\}|[\u2400-\u2421]|\u200c|\u200d/g, '')
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/\s+/g, ' ')
    .replace(/[\u02d0\u2236\ua789]/g, ':')
    .replace(/[\u2044\u2215\u29f8]/g, '/')
    .replace(/[\u2223\u01c0\u23d0]/g, '|')
    .replace(/[\u2010-\u2015\u2212]/g, '-')
    .replace(/[^\0-\x7f]/g, (letter) => LATIN[FOREIGN.indexOf(letter)] ?? letter);
}

/** Letters of other alphabets that look like Latin ones, after lower-casing; each above what it looks like. */
const FOREIGN = 'асеорхуіѕјвнкмтԁԍѵԛԝαεορικμντυβηζχςѡƨıɡɑ';
const LATIN = 'aceopxyisjbhkmtdgvqwaeopikmntybhzxcw2iga';
