/** What a program was started with. */
export type Env = Record<string, string | undefined>;
