import { PROTOCOL_VERSIONS } from '../../protocol/host.ts';
import type { Capabilities, Initialize, PeerRole, ProtocolVersion } from '../../protocol/host.ts';
import { Glyphs } from './glyphs.ts';

/** What both sides agreed on at `initialize`. */
export interface Terms {
  version: ProtocolVersion;
  role: PeerRole;
  capabilities: Capabilities;
  glyphs: Glyphs;
}

type Flags = Record<string, boolean>;

/** What this host can do. spec: host#capabilities */
const OURS = {
  delivery: { ack: true, redelivery: true, idempotency: true },
  injection: { immediate: true, buffered: true, notify: true, tool_mailbox: true, digest: true, interrupt: true },
  chatTools: {
    readThread: true,
    sendMessage: true,
    react: true,
    reactionSignals: true,
    claim: true,
    defer: true,
    resolve: true,
  },
  utilities: { progress: true, cancellation: true, logging: true },
} as const;

/** A version that we do not know is met with our best; of what can be done, what both can. spec: host#initialize */
export function agree(asked: Initialize): Terms {
  const { capabilities: theirs, role, protocolVersion } = asked;
  const glyphs = new Glyphs(theirs.glyphs);
  return {
    version: PROTOCOL_VERSIONS.find((one) => one === protocolVersion) ?? PROTOCOL_VERSIONS[0],
    role,
    glyphs,
    capabilities: {
      delivery: both(OURS.delivery, theirs.delivery),
      injection: both(OURS.injection, theirs.injection),
      chatTools: both(OURS.chatTools, theirs.chatTools),
      utilities: both(OURS.utilities, theirs.utilities),
      ...(theirs.glyphs && { glyphs: glyphs.all }),
    },
  };
}

function both<T extends Flags>(ours: T, theirs: Flags): { [K in keyof T]: boolean } {
  const agreed = Object.keys(ours).map((name) => [name, ours[name] === true && theirs[name] === true]);
  return Object.fromEntries(agreed) as { [K in keyof T]: boolean };
}
