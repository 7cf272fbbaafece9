/** Files that are a part of the program, each as its path. */
declare module '*.wasm' {
  const path: string;
  export default path;
}
declare module '*.woff' {
  const path: string;
  export default path;
}
declare module '*.ttf' {
  const path: string;
  export default path;
}
