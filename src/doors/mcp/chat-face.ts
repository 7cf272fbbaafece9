import { RULES } from '../../delivery/event-text.ts';
import { plainLine } from '../../delivery/gate.ts';
import { call } from './calls.ts';
import type { Caller } from './calls.ts';
import type { Face } from './face.ts';
import { isMcpTool, TOOL_LIST } from './tools.ts';

/**
 * Our own face: the seven tools of the protocol, and who is here. `caller` is asked at each call: whoever starts us may not have a
 * mailbox yet, and a tool's answer is where a model reads that.
 */
export function chatFace(version: string, caller: () => Promise<Caller>): Face {
  return {
    serverInfo: { name: 'parley', version },
    instructions: RULES,
    tools: TOOL_LIST,
    async call(name, given, answer) {
      if (!isMcpTool(name)) throw new Error('no tool of this face');
      answer(await call(await caller(), name, given));
    },
    refusal: (text) => plainLine(inTools(text)),
  };
}

/** A refusal may name a command of ours; whoever calls tools has that tool. */
function inTools(text: string): string {
  return text.replace(/`parley agents`/g, 'chat_who').replace(/`parley (?:events|history)`/g, 'chat_list_events');
}
