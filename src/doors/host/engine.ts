import type { Wire } from '../../flow/host/wire.ts';
import type {
  Bind,
  Capabilities,
  Progress,
  ProtocolVersion,
  Quieter,
  Turn,
  SURFACE,
  ToolArguments,
  ToolName,
} from '../../protocol/host.ts';
import type { Described } from '../../protocol/schema.ts';

type SurfaceMethod = keyof typeof SURFACE;
export type SurfaceParams<M extends SurfaceMethod> = Described<(typeof SURFACE)[M]>;

/** What a surface brings. */
export interface SurfaceEngine {
  bind(wire: Wire, params: SurfaceParams<'surface/bind'>): unknown;
  post(wire: Wire, params: SurfaceParams<'surface/post'>): unknown;
  edit(wire: Wire, params: SurfaceParams<'surface/edit'>): unknown;
  delete(wire: Wire, params: SurfaceParams<'surface/delete'>): unknown;
  react(wire: Wire, params: SurfaceParams<'surface/react'>): unknown;
  typing(wire: Wire, params: SurfaceParams<'surface/typing'>): unknown;
}

/** What the door calls. `flow/host/host.ts` is it; a wire is known by its identity. */
export interface Engine {
  bind(
    wire: Wire,
    capabilities: Capabilities,
    version: ProtocolVersion,
    request: Bind,
  ): Promise<{ sessionId: string; token: string; warnings: string[] }>;
  /** The connection ended; its sessions can be taken up again. */
  gone(wire: Wire): void;
  turn(wire: Wire, turn: Turn): Promise<void>;
  contextReset(wire: Wire, sessionId: string): void | Promise<void>;
  call<Name extends ToolName>(
    wire: Wire,
    sessionId: string | undefined,
    tool: Name,
    args: ToolArguments<Name>,
  ): Promise<unknown>;
  quieter(wire: Wire, request: Quieter): Promise<unknown>;
  progress(wire: Wire, progress: Progress): void | Promise<void>;
  surface: SurfaceEngine;
}
