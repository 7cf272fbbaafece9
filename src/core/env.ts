/** The environment variables of a program. */
export type Env = Record<string, string | undefined>;
