import type { Answering, AskedQuestion, Choice, OpenQuestion, QuestionDriver } from '../../src/core/ports/session.ts';

/** What a session asks, as a test plays it. */
export class ScriptedQuestions implements QuestionDriver {
  asked: OpenQuestion | null = null;
  /** Every set of answers that was entered. */
  readonly entered: (readonly Choice[])[] = [];
  /** How the next ones end. Without it they are answered. */
  readonly ends: Answering[] = [];
  /** Entering takes until this is resolved. */
  gate: Promise<void> = Promise.resolve();
  isEntering = false;
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
    this.isEntering = true;
    await this.gate;
    this.isEntering = false;
    if (this.asked?.call !== call) return { outcome: 'gone' };
    const end = this.ends.shift() ?? { outcome: 'answered' };
    if (end.outcome === 'answered') {
      this.entered.push(choices);
      this.asked = null;
    }
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
