import type { Answering, AskedQuestion, Choice, OpenQuestion, QuestionDriver } from '../../src/core/ports/session.ts';

/** The questions of a session, opened by a test. */
export class ScriptedQuestions implements QuestionDriver {
  asked: OpenQuestion | null = null;
  /** Every set of answers that was entered. */
  readonly entered: (readonly Choice[])[] = [];
  /** The outcomes of the next `answer` calls, in order. Then each is `answered`. */
  readonly ends: Answering[] = [];
  /** `answer` returns when this resolves. The client may have continued by then. */
  gate: Promise<void> = Promise.resolve();
  #calls = 0;

  asks(questions: AskedQuestion[], fields: Partial<OpenQuestion> = {}): OpenQuestion {
    this.#calls += 1;
    this.asked = { call: `call-${this.#calls}`, kind: 'question', questions, askedAt: Date.now(), ...fields };
    return this.asked;
  }

  async open(): Promise<OpenQuestion | null> {
    return this.asked;
  }

  async answer(call: string, choices: readonly Choice[]): Promise<Answering> {
    if (this.asked?.call !== call) return { outcome: 'gone' };
    const end = this.ends.shift() ?? { outcome: 'answered' };
    if (end.outcome === 'answered') {
      this.entered.push(choices);
      this.asked = null;
    }
    await this.gate;
    return end;
  }
}

export function aQuestion(fields: Partial<AskedQuestion> = {}): AskedQuestion {
  const options = [
    { label: 'PostgreSQL', description: 'Relational, ACID compliant' },
    { label: 'MongoDB', description: 'Document store, flexible schema' },
    { label: 'SQLite' },
  ];
  return { question: 'Which database should we use?', header: 'Database', options, multiSelect: false, ...fields };
}
