import type { Schema } from '../../protocol/schema.ts';

/** As much of a schema's insides as a description needs. */
interface Inner {
  type: string;
  entries?: Record<string, Inner>;
  wrapped?: Inner;
  item?: Inner;
  options?: readonly unknown[];
  default?: unknown;
}

/** What a schema takes, as JSON Schema: made from the schema itself, so that the two cannot differ. spec: host#tools */
export function shapeOf(schema: Schema<never> | { inner: unknown }): Record<string, unknown> {
  return shape(schema.inner as Inner);
}

function shape(inner: Inner): Record<string, unknown> {
  const { type, entries, wrapped, item, options } = inner;
  switch (type) {
    case 'object':
      return {
        type: 'object',
        properties: Object.fromEntries(Object.entries(entries ?? {}).map(([name, one]) => [name, shape(one)])),
        required: Object.entries(entries ?? {}).flatMap(([name, one]) => (one.type === 'optional' ? [] : [name])),
      };
    case 'optional':
      return {
        ...(wrapped && shape(wrapped)),
        ...(typeof inner.default !== 'object' && inner.default !== undefined && { default: inner.default }),
      };
    case 'array':
      return { type: 'array', ...(item && { items: shape(item) }) };
    case 'picklist':
      return { type: 'string', enum: options };
    default:
      return { type };
  }
}
