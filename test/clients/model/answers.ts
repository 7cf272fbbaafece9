// How an answer leaves the scripted model.

export const json = (value: unknown, status = 200): Response => Response.json(value, { status });

/** Server-sent events, one for each value; an object's `type` is also the name of its event. */
export function events(values: readonly (object | string)[]): Response {
  const text = values.map((value) => {
    if (typeof value === 'string') return `data: ${value}\n\n`;
    const name = 'type' in value ? `event: ${String(value.type)}\n` : '';
    return `${name}data: ${JSON.stringify(value)}\n\n`;
  });
  return new Response(text.join(''), {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
}
