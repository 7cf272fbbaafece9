/** Markdown files that the build embeds as text. */
declare module '*.md' {
  const text: string;
  export default text;
}
