/** A clock that stands still until a test moves it. */
export function aClock(start = Date.now()): { now: () => number; pass: (ms: number) => void } {
  let time = start;
  return {
    now: () => time,
    pass: (ms) => {
      time += ms;
    },
  };
}
