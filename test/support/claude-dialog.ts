// The dialogs of Claude Code 2.1.325, for its stand-in: drawn and driven by keys as the real ones were seen to be.
import type { AskedQuestion } from '../../src/core/ports/session.ts';

/** A tool call that opens a dialog: questions of the model, or a command that must be allowed. */
export type DialogCall = { questions: AskedQuestion[] } | { permission: string } | { plan: string };

/** How a dialog ended: what was answered, an option of a permission, or Esc. */
export type DialogEnd = { answers: Record<string, string> } | { option: number } | 'cancelled';

const PERMISSION = ['Yes', 'Yes, and always allow access to this folder from this project', 'No'];
const PLAN = ['Yes, and switch to default (ask each time) for this session', 'No'];

export class ClaudeDialog {
  readonly #pages: Page[];
  #page = 0;
  /** On the review page. */
  #row = 0;

  constructor(readonly call: DialogCall) {
    this.#pages = 'questions' in call ? call.questions.map((question) => new Page(question)) : [];
  }

  get waitingFor(): string {
    return 'questions' in this.call ? 'input needed' : 'permission prompt';
  }

  get tool(): { name: string; input: Record<string, unknown> } {
    if ('questions' in this.call) return { name: 'AskUserQuestion', input: { questions: this.call.questions } };
    if ('plan' in this.call) return { name: 'ExitPlanMode', input: { plan: this.call.plan } };
    return { name: 'Bash', input: { command: this.call.permission, description: 'a scripted step' } };
  }

  /** One key: an arrow, `Enter`, a digit, a letter. How the dialog ended, or null. */
  press(key: string): DialogEnd | null {
    if (!('questions' in this.call)) return this.#choose(key, 'plan' in this.call ? PLAN : PERMISSION);
    const page = this.#pages[this.#page];
    if (key === 'Left' || key === 'Right') {
      this.#turn(key === 'Left' ? -1 : 1);
      return null;
    }
    if (!page) {
      const end = this.#choose(key, ['Submit answers', 'Cancel']);
      if (end === null || end === 'cancelled') return end;
      return 'option' in end && end.option === 1 ? 'cancelled' : this.#answers();
    }
    if (!page.press(key)) return null;
    if (page.at === page.chat) return 'cancelled';
    if (this.#pages.length === 1 && !page.question.multiSelect) return this.#answers();
    this.#turn(1);
    return null;
  }

  paste(text: string): void {
    this.#pages[this.#page]?.type(text);
  }

  draw(width: number): string[] {
    const rule = '─'.repeat(width);
    if ('plan' in this.call) {
      const above = [` ${'─'.repeat(width - 4)}`, '   Exit plan mode?', '', '    Claude wants to exit plan mode', ''];
      return ['▔'.repeat(width), '', ...above, ...this.#rows(PLAN, '    ')];
    }
    if ('permission' in this.call) {
      const line = '╌'.repeat(width);
      const above = [
        ' Bash command',
        ' a scripted step',
        line,
        ` ${this.call.permission}`,
        line,
        ' Do you want to proceed?',
      ];
      return [rule, ...above, ...this.#rows(PERMISSION, ' '), '', ' Esc to cancel · Tab to amend'];
    }
    const page = this.#pages[this.#page];
    const headers = this.#pages.map((one) => `${one.answer === null ? '☐' : '☒'} ${one.question.header}`);
    const isAlone = this.#pages.length === 1 && this.#pages[0]?.question.multiSelect !== true;
    const tabs = isAlone ? ` ${headers[0]}` : `←  ${headers.join('  ')}  ✔ Submit  →`;
    if (page) return [rule, tabs, '', ...page.draw(rule, this.#pages.length > 1)];
    const missing = this.#pages.some(({ answer }) => answer === null);
    return [
      rule,
      tabs,
      '',
      'Review your answers',
      '',
      ...(missing ? ['⚠ You have not answered all questions', ''] : []),
      ...this.#pages.flatMap(({ question, answer }) =>
        answer === null ? [] : [` ● ${question.question}`, `   → ${answer}`],
      ),
      '',
      'Ready to submit your answers?',
      '',
      ...this.#rows(['Submit answers', 'Cancel'], ''),
    ];
  }

  #turn(by: number): void {
    this.#page = Math.min(
      Math.max(this.#page + by, 0),
      this.#pages.length > 1 || by < 0 || this.#isMulti ? this.#pages.length : 0,
    );
    this.#row = 0;
  }

  get #isMulti(): boolean {
    return this.#pages[0]?.question.multiSelect === true;
  }

  #choose(key: string, rows: string[]): DialogEnd | null {
    if (key === 'Down') this.#row = Math.min(this.#row + 1, rows.length - 1);
    if (key === 'Up') this.#row = Math.max(this.#row - 1, 0);
    if (/^\d$/.test(key) && Number(key) >= 1 && Number(key) <= rows.length) return { option: Number(key) - 1 };
    return key === 'Enter' ? { option: this.#row } : null;
  }

  #answers(): DialogEnd {
    const given = this.#pages.flatMap(({ question, answer }) => (answer === null ? [] : [[question.question, answer]]));
    return { answers: Object.fromEntries(given) as Record<string, string> };
  }

  #rows(rows: string[], indent: string): string[] {
    return rows.map((label, at) => `${indent}${at === this.#row ? '❯' : ' '} ${at + 1}. ${label}`);
  }
}

/** One question. Its rows: the options, a text, `Next` where several can be chosen, and `Chat about this`. */
class Page {
  readonly #checked = new Set<number>();
  #chosen: number | null = null;
  #text = '';
  at = 0;

  constructor(readonly question: AskedQuestion) {}

  get #textRow(): number {
    return this.question.options.length;
  }

  get chat(): number {
    return this.#textRow + (this.question.multiSelect ? 2 : 1);
  }

  get answer(): string | null {
    const { options, multiSelect } = this.question;
    if (!multiSelect) return this.#chosen === this.#textRow ? this.#text : (options[this.#chosen ?? -1]?.label ?? null);
    const labels = options.filter((_option, at) => this.#checked.has(at)).map(({ label }) => label);
    if (this.#text !== '') labels.push(this.#text);
    return labels.length > 0 ? labels.join(', ') : null;
  }

  /** Whether it goes on to the next page. */
  press(key: string): boolean {
    const { multiSelect } = this.question;
    if (key === 'Down') this.at = Math.min(this.at + 1, this.chat);
    else if (key === 'Up') this.at = Math.max(this.at - 1, 0);
    else if (this.at === this.#textRow && key.length === 1) this.type(key);
    else if (/^\d$/.test(key) && Number(key) >= 1 && Number(key) <= this.#textRow) {
      this.at = Number(key) - 1;
      return this.#enter(multiSelect);
    } else if (key === 'Enter') return this.#enter(multiSelect);
    return false;
  }

  #enter(multiSelect: boolean): boolean {
    if (this.at === this.chat || (multiSelect && this.at === this.#textRow + 1)) return true;
    if (this.at === this.#textRow) {
      if (this.#text === '' || multiSelect) return false;
      this.#chosen = this.at;
      return true;
    }
    if (multiSelect) {
      if (!this.#checked.delete(this.at)) this.#checked.add(this.at);
      return false;
    }
    this.#chosen = this.at;
    return true;
  }

  type(text: string): void {
    if (this.at === this.#textRow) this.#text += text.replaceAll('\n', ' ');
  }

  draw(rule: string, isOneOfMany: boolean): string[] {
    const { question, options, multiSelect } = this.question;
    const mark = (at: number): string => (this.at === at ? '❯' : ' ');
    const box = (isOn: boolean): string => (multiSelect ? `[${isOn ? '✔' : ' '}] ` : '');
    const rows = options.flatMap(({ label, description }, at) => [
      `${mark(at)} ${at + 1}. ${box(this.#checked.has(at))}${label}`,
      ...(description ? [`${multiSelect ? '         ' : '     '}${description}`] : []),
    ]);
    const hint = multiSelect ? 'Type something' : 'Type something.';
    rows.push(`${mark(this.#textRow)} ${this.#textRow + 1}. ${box(this.#text !== '')}${this.#text || hint}`);
    if (multiSelect) rows.push(`${mark(this.#textRow + 1)}    ${isOneOfMany ? 'Next' : 'Submit'}`);
    const chat = `${mark(this.chat)} ${this.#textRow + 2}. Chat about this`;
    return [question, '', ...rows, rule, chat, '', 'Enter to select · ↑/↓ to navigate · Esc to cancel'];
  }
}
