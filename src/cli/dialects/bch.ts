export async function runBch(_argv: string[]): Promise<void> {}
