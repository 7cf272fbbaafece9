/** One thing that a scripted agent does: the words of a Parley command. `<id>` stands for the id of the question. */
export interface Scene {
  /** What the reader is told before it. */
  about: string;
  agent: string;
  words: readonly string[];
}

export const ASKS = 'planner';
export const ANSWERS = 'builder';

/** The main job from beginning to end. The send must stay the only scene that makes the question. */
export const SCENES: readonly Scene[] = [
  { about: 'Two agents make their mailboxes.', agent: ASKS, words: ['init', ASKS] },
  { about: '', agent: ANSWERS, words: ['init', ANSWERS] },
  {
    about: 'One asks the other. `stored` means: flushed to disk in the mailbox of the other.',
    agent: ASKS,
    words: ['send', `@${ANSWERS}`, 'Is it safe to run migration 42 twice?', '--intent', 'question', '--key', 'demo-1'],
  },
  {
    about: 'The same send once more, as after a crash: one key, one message.',
    agent: ASKS,
    words: ['send', `@${ANSWERS}`, 'Is it safe to run migration 42 twice?', '--intent', 'question', '--key', 'demo-1'],
  },
  {
    about: 'The other takes it and holds it while it works.',
    agent: ANSWERS,
    words: ['take', '--lease', '10m'],
  },
  { about: 'A second session of the same agent cannot get it meanwhile.', agent: ANSWERS, words: ['take'] },
  {
    about: 'It answers. That settles its copy of the question, and the answer is the evidence.',
    agent: ANSWERS,
    words: ['reply', '<id>', 'Yes: it checks its own mark first and stops there.'],
  },
  { about: 'The first one reads the answer.', agent: ASKS, words: ['drain'] },
  { about: 'What became of the question, step by step, with the evidence.', agent: ASKS, words: ['trace', '<id>'] },
];
