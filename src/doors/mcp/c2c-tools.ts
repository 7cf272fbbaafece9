import { C2C_TOOLS } from '../../protocols/c2c/tools.ts';

const SHAPES = {
  text: { type: 'string' },
  number: { type: 'number' },
  flag: { type: 'boolean' },
  texts: { type: 'array', items: { type: 'string' } },
} as const;

type Row = (typeof C2C_TOOLS)[keyof typeof C2C_TOOLS];

/** As `tools/list` answers them: those of every day, and the others. spec: c2c#tools */
export const DAILY = listed((row) => !('rare' in row));
export const RARE = listed((row) => 'rare' in row);

function listed(isIn: (row: Row) => boolean) {
  return Object.entries(C2C_TOOLS).flatMap(([name, row]) => (isIn(row) ? [shape(name, row)] : []));
}

function shape(name: string, row: Row) {
  const takes = Object.entries(row.takes);
  return {
    name,
    description: row.about,
    inputSchema: {
      type: 'object',
      properties: Object.fromEntries(takes.map(([field, kind]) => [field, SHAPES[kind]])),
      ...('needs' in row && { required: row.needs }),
    },
    ...('looks' in row && { annotations: { readOnlyHint: true } }),
  };
}
