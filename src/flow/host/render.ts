import type { ChatDeliver, Knock } from '../../protocol/host.ts';
import type { Digest, ProgressLine, Window } from '../../protocol/prompt.ts';

/** Makes the words that a model sees. The texts it is given are masked; that no body can forge a header is its work. */
export interface Render {
  event(event: ChatDeliver, window?: Window, progress?: readonly ProgressLine[]): string;
  knock(eventId: string, knock: Knock): string;
  rules(): string;
  digest(digest: Digest): string;
}
