import type { SessionDriver } from '../../core/ports/session.ts';
import { Refusal } from '../../core/refusal.ts';

/** The driver of a session that we cannot drive: it is always stopped, and a start fails with the reason. */
export class NoDriver implements SessionDriver {
  constructor(readonly because: string) {}

  async state(): Promise<{ status: 'stopped' }> {
    return { status: 'stopped' };
  }
  watch(): () => void {
    return () => {};
  }
  prepare(text: string): string {
    return text;
  }
  async place(): Promise<string> {
    return '';
  }
  async events(): Promise<{ events: []; next: string }> {
    return { events: [], next: '' };
  }
  isOurs(): boolean {
    return false;
  }
  async submit(): Promise<{ outcome: 'left'; because: string; retry: false }> {
    return { outcome: 'left', because: this.because, retry: false };
  }
  async start(): Promise<never> {
    throw new Refusal('unreachable', this.because);
  }
  async stop(): Promise<void> {}
  async screen(): Promise<never> {
    throw new Refusal('unreachable', 'no terminal');
  }
  async saveFile(): Promise<never> {
    throw new Refusal('unreachable', this.because);
  }
  async close(): Promise<void> {}
}
