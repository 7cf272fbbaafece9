// Loaded before a program of a test (`--preload`): nothing in it looks from time to time. What it still notices it was told by an event.
globalThis.setInterval = ((): number => 0) as unknown as typeof setInterval;
