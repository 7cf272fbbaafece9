import { SURFACE } from '../../src/protocols/c2a/shapes.ts';
import { FakeWire } from './host.ts';
import type { TestHost } from './host.ts';

/** A chat surface with people who write, edit, delete, react and type. */
export class TestSurface {
  readonly wire = new FakeWire();
  #count = 0;

  constructor(
    readonly host: TestHost,
    readonly platform = 'slack',
  ) {}

  async bind(fields: object = {}): Promise<this> {
    const { surface } = this.host.host;
    await surface.bind(
      this.wire,
      SURFACE['surface/bind'].parse({ platform: this.platform, workspaceId: 'T1', ...fields }),
    );
    await this.host.calm();
    return this;
  }

  /** A DM from a person to an agent. */
  async dm(author: string, recipient: string, text: string, fields: object = {}) {
    return this.post(author, { id: `D-${author}`, kind: 'dm' }, text, { recipient, ...fields });
  }

  async post(author: string, conversation: object, text: string, fields: object = {}) {
    this.#count += 1;
    const posted = await this.host.host.surface.post(
      this.wire,
      SURFACE['surface/post'].parse({
        messageId: `m${this.#count}`,
        conversation,
        author: { id: author, kind: 'human' },
        content: [{ type: 'text', text }],
        ...fields,
      }),
    );
    await this.host.calm();
    return posted;
  }

  async edit(messageId: string, text: string, fields: object = {}) {
    const edited = await this.host.host.surface.edit(
      this.wire,
      SURFACE['surface/edit'].parse({ messageId, content: [{ type: 'text', text }], ...fields }),
    );
    await this.host.calm();
    return edited;
  }

  async delete(messageId: string, by?: string, conversation?: string) {
    const deleted = await this.host.host.surface.delete(this.wire, { messageId, by, conversation });
    await this.host.calm();
    return deleted;
  }

  async react(author: string, messageId: string, fields: object) {
    this.#count += 1;
    const reacted = await this.host.host.surface.react(
      this.wire,
      SURFACE['surface/react'].parse({ messageId, reactionId: `r${this.#count}`, author, ...fields }),
    );
    await this.host.calm();
    return reacted;
  }

  async typing(author: string, conversation: string, on: boolean): Promise<void> {
    this.host.host.surface.typing(this.wire, { author, conversation, on });
    await this.host.calm();
  }
}
