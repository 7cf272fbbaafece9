import type { Attempt, Parcel, Way } from '../../src/core/ports/way-in.ts';
import type { Activity } from '../../src/sessions/client-state.ts';
import type { Terminal } from '../../src/sessions/terminal.ts';

/** A terminal that remembers what was put into it, with a client in it whose state a test sets. */
export class ScriptedTerminal implements Terminal {
  readonly name = 'scripted 1';
  readonly tty = null;
  readonly entered: string[] = [];
  state: Activity = 'idle';
  /** What stands in the composer. */
  composer = '';
  /** The next paste fails with this, before anything was put in. */
  breaks: Error | null = null;
  onPaste: () => void = () => {};

  async screen() {
    const lines = [this.composer];
    return { lines, bright: lines, cursor: { row: 0, column: this.composer.length } };
  }

  async paste(text: string): Promise<void> {
    if (this.breaks) throw this.breaks;
    this.onPaste();
    this.composer += text;
  }

  async enter(): Promise<void> {
    this.entered.push(this.composer);
    this.composer = '';
  }

  async erase(): Promise<void> {
    this.composer = '';
  }

  async close(): Promise<void> {}
}

/** Types into a scripted terminal as the real way does: only into an idle client with an empty composer. */
export function typing(into: ScriptedTerminal): (terminal: Terminal) => Way {
  return (terminal) => ({
    name: 'terminal',
    async attempt(parcels: readonly Parcel[]): Promise<Attempt> {
      if (into.state !== 'idle') return { outcome: 'left', because: `the client is ${into.state}`, retry: true };
      if (into.composer !== '') return { outcome: 'left', because: 'there is a draft', retry: true };
      try {
        await terminal.paste(parcels.map(({ text }) => text).join('\n'));
      } catch (error) {
        return { outcome: 'left', because: String(error), retry: true };
      }
      await terminal.enter();
      return { outcome: 'offered', evidence: { terminal: terminal.name } };
    },
  });
}
