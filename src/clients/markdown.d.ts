/** A document that is part of the program. */
declare module '*.md' {
  const text: string;
  export default text;
}
