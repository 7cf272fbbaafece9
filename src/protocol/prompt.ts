// What stands around an event in a prompt. The host fills it in, delivery makes it words: neither knows the other.

/** A message of a thread, as context. Its text is masked. */
export interface Said {
  id: string;
  author: { kind: string; displayName: string };
  at: string;
  text: string;
}

/** What stood in the thread before an event, oldest first, and how many more there are that are not listed here. */
export interface Window {
  said: readonly Said[];
  earlier: number;
  /** The tool that reads the rest, by the name that this session knows. */
  pullWith: string;
}

/** How far some work is: shown only where somebody asked, or in a digest. */
export interface ProgressLine {
  from: string;
  token: string;
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

/** Where many messages came from since the last digest. */
export interface Source {
  stream: string;
  count: number;
  from: readonly string[];
  /** How many of these name the reader or hand it work. */
  forYou?: number | undefined;
}

export interface Digest {
  policy: string;
  since: string;
  until: string;
  sources: readonly Source[];
  pullWith: string;
  progress: readonly ProgressLine[];
  /** Messages that wake nobody: the digest is where their text is shown in full. */
  said?: readonly Said[];
}
